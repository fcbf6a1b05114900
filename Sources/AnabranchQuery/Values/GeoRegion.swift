import AnabranchCore

#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// A region of the unit sphere, checked, with the properties that give objects their place on it (`Spec/Query.md`,
/// section 6.9).
struct GeoRegion: Sendable {
    /// The reason why a shape is not a region.
    struct Problem: Error {
        let reason: String
    }

    private enum Area: Sendable {
        case cap(center: UnitVector, radius: Double)
        case polygon(outer: GeoRing, holes: [GeoRing])
    }

    private let area: Area
    /// The properties of an object that is a point.
    private let type: Property
    private let coordinates: Property

    /// - Parameter schema: of the objects that may be points.
    init(_ shape: Shape, for schema: ClassSchema) throws(Problem) {
        guard let type = schema.property(named: Array("type".utf8)), type.type == .string, type.collection == .single,
            let coordinates = schema.property(named: Array("coordinates".utf8)), coordinates.type == .double,
            coordinates.collection == .list
        else { throw Problem(reason: "GEOWITHIN needs objects with a type and coordinates") }
        (self.type, self.coordinates) = (type, coordinates)
        switch shape {
        case .circle(let center, let radius):
            guard radius >= 0 else { throw Problem(reason: "the radius of a circle is negative") }
            area = .cap(center: try UnitVector(center), radius: radius)
        case .box(let corner, let other):
            guard corner.longitude != other.longitude, corner.latitude != other.latitude else {
                throw Problem(reason: "a box needs opposite corners")
            }
            area = .polygon(outer: try GeoRing(Shape.ring(ofBox: corner, other)), holes: [])
        case .polygon(let rings):
            var checked: [GeoRing] = []
            for ring in rings { checked.append(try GeoRing(ring)) }
            area = .polygon(outer: checked[0], holes: Array(checked.dropFirst()))
        }
    }

    /// The number of edges that are looked at for a point.
    var edgeCount: Int {
        switch area {
        case .cap: 1
        case .polygon(let outer, let holes): holes.reduce(outer.edgeCount) { $0 + $1.edgeCount }
        }
    }

    private static let pointType = Array("point".utf8)

    /// True if an object is a point within the region: its longitude comes before its latitude.
    func contains(_ object: StateObject) -> Bool {
        guard case .string(let name) = object.value(of: type), name.count == Self.pointType.count,
            name.map(\.lowercased) == Self.pointType,
            case .list(let numbers) = object.value(of: coordinates), numbers.count >= 2,
            case (.double(let longitude), .double(let latitude)) = (numbers[0], numbers[1]),
            let place = try? UnitVector(Shape.Point(longitude: longitude, latitude: latitude, altitude: nil))
        else { return false }
        switch area {
        case .cap(let center, let radius): return center.angle(to: place) <= radius
        case .polygon(let outer, let holes):
            return outer.contains(place) && !holes.contains { $0.contains(place) }
        }
    }
}

extension Shape {
    /// The corners of a box, closed.
    static func ring(ofBox corner: Point, _ other: Point) -> [Point] {
        let places = [
            (corner.longitude, corner.latitude), (corner.longitude, other.latitude), (other.longitude, other.latitude),
            (other.longitude, corner.latitude), (corner.longitude, corner.latitude),
        ]
        return places.map { Point(longitude: $0.0, latitude: $0.1, altitude: nil) }
    }
}

/// A closed line on the sphere, and the smaller side of it.
struct GeoRing: Sendable {
    /// The edges, with the region on their left.
    private let edges: [Arc]
    /// A point of the region.
    private let inside: UnitVector

    var edgeCount: Int { edges.count }

    init(_ points: [Shape.Point]) throws(GeoRegion.Problem) {
        guard let first = points.first, let last = points.last, points.count > 1, first.longitude == last.longitude,
            first.latitude == last.latitude
        else { throw GeoRegion.Problem(reason: "a ring must end where it begins") }
        var corners: [UnitVector] = []
        for point in points.dropLast() { corners.append(try UnitVector(point)) }
        guard corners.count >= 3, Set(corners).count == corners.count else {
            throw GeoRegion.Problem(reason: "a ring needs three different points or more, and none twice")
        }
        let edges = Self.edges(corners)
        for (index, edge) in edges.enumerated() {
            // Neighbours have a corner in common, also the last edge and the first.
            for other in edges[..<(index == 0 ? edges.count - 1 : edges.count)].dropFirst(index + 2)
            where edge.crosses(other) {
                throw GeoRegion.Problem(reason: "the edges of a ring cross")
            }
        }
        if Self.turning(edges) < 0 { corners.reverse() }
        self.edges = Self.edges(corners)
        let (start, end) = (corners[0], corners[1])
        let step = 1e-9
        inside = (start + end).unit.plus(start.cross(end).unit, times: step).unit
    }

    private static func edges(_ corners: [UnitVector]) -> [Arc] {
        corners.indices.map { Arc(start: corners[$0], end: corners[($0 + 1) % corners.count]) }
    }

    /// The total left turn of a walk along the ring: positive if less than half of the sphere is on the left.
    private static func turning(_ edges: [Arc]) -> Double {
        edges.indices.reduce(0) { sum, index in
            let (edge, next) = (edges[index], edges[(index + 1) % edges.count])
            let (before, after) = (edge.start.cross(edge.end), next.start.cross(next.end))
            let angle = before.angle(to: after)
            return sum + (next.start.dot(before.cross(after)) < 0 ? -angle : angle)
        }
    }

    /// True if the way from a point inside crosses the ring an even number of times.
    func contains(_ point: UnitVector) -> Bool {
        let way = Arc(start: inside, end: point)
        return edges.count { $0.crosses(way) }.isMultiple(of: 2)
    }
}

/// The shortest way between two points.
private struct Arc {
    let start: UnitVector
    let end: UnitVector

    /// True if both have a point in common that is not an end of either.
    func crosses(_ other: Arc) -> Bool {
        let (own, others) = (start.cross(end), other.start.cross(other.end))
        let sides = [-own.dot(other.start), own.dot(other.end), -others.dot(end), others.dot(start)]
        return sides.allSatisfy { $0 > 0 } || sides.allSatisfy { $0 < 0 }
    }
}

/// A direction; of length 1 except for cross products.
struct UnitVector: Hashable, Sendable {
    var x: Double
    var y: Double
    var z: Double

    private init(x: Double, y: Double, z: Double) { (self.x, self.y, self.z) = (x, y, z) }

    init(_ point: Shape.Point) throws(GeoRegion.Problem) {
        guard abs(point.longitude) <= 180, abs(point.latitude) <= 90 else {
            throw GeoRegion.Problem(reason: "longitudes are from -180 to 180, latitudes from -90 to 90")
        }
        let (longitude, latitude) = (point.longitude * .pi / 180, point.latitude * .pi / 180)
        self.init(x: cos(latitude) * cos(longitude), y: cos(latitude) * sin(longitude), z: sin(latitude))
    }

    func dot(_ other: UnitVector) -> Double { x * other.x + y * other.y + z * other.z }

    func cross(_ other: UnitVector) -> UnitVector {
        UnitVector(
            x: y * other.z - z * other.y, y: z * other.x - x * other.z, z: x * other.y - y * other.x)
    }

    func plus(_ other: UnitVector, times factor: Double) -> UnitVector {
        UnitVector(x: x + other.x * factor, y: y + other.y * factor, z: z + other.z * factor)
    }

    static func + (left: UnitVector, right: UnitVector) -> UnitVector { left.plus(right, times: 1) }

    var unit: UnitVector {
        let length = dot(self).squareRoot()
        return length == 0 ? self : UnitVector(x: x / length, y: y / length, z: z / length)
    }

    func angle(to other: UnitVector) -> Double {
        let normal = cross(other)
        return atan2(normal.dot(normal).squareRoot(), dot(other))
    }
}
