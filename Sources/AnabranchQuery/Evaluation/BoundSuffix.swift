import AnabranchCore

/// `SORT`, `DISTINCT` or `LIMIT`, checked (`Spec/Query.md`, section 6.10).
enum BoundSuffix: Sendable {
    case sort([(path: BoundPath, isAscending: Bool)])
    case distinct([BoundPath])
    case limit(Int)

    func applied(to objects: [StateObject], in evaluation: Evaluation) throws(QueryError) -> [StateObject] {
        switch self {
        case .limit(let count): return Array(objects.prefix(count))
        case .sort(let keys):
            let keyed = try objects.map { object throws(QueryError) in
                (object, try evaluation.firstValues(at: keys.map(\.path), of: object))
            }
            let sorted = keyed.sorted { left, right in
                for (index, key) in keys.enumerated() {
                    let order = StateValue.compare(left.1[index], right.1[index])
                    if order != 0 { return key.isAscending ? order < 0 : order > 0 }
                }
                return false
            }
            return sorted.map(\.0)
        case .distinct(let paths):
            var keyed: [(object: StateObject, values: [StateValue], position: Int)] = []
            for (position, object) in objects.enumerated() {
                keyed.append((object, try evaluation.firstValues(at: paths, of: object), position))
            }
            func order(_ left: [StateValue], _ right: [StateValue]) -> Int {
                zip(left, right).lazy.map(StateValue.compare).first { $0 != 0 } ?? 0
            }
            keyed.sort {
                let order = order($0.values, $1.values)
                return order != 0 ? order < 0 : $0.position < $1.position
            }
            let firsts = keyed.indices.filter { $0 == 0 || order(keyed[$0 - 1].values, keyed[$0].values) != 0 }
            return firsts.map { keyed[$0] }.sorted { $0.position < $1.position }.map(\.object)
        }
    }
}

extension Evaluation {
    /// The value at the end of each path, which leads to one.
    func firstValues(at paths: [BoundPath], of object: StateObject) throws(QueryError) -> [StateValue] {
        budget.beginObject()
        return try paths.map { path throws(QueryError) in
            try values(at: path, from: object).first?.values.first ?? .null
        }
    }
}

extension Binder {
    func suffixes(_ suffixes: [ParsedQuery.Suffix]) throws(QueryError) -> [BoundSuffix] {
        if !suffixes.isEmpty { try rules?.refuse("SORT, DISTINCT and LIMIT are not allowed", at: 0) }
        return try suffixes.map { suffix throws(QueryError) in
            switch suffix {
            case .limit(let count): return .limit(count)
            case .distinct(let paths):
                return .distinct(try paths.map { path throws(QueryError) in try sortPath(path) })
            case .sort(let keys):
                return .sort(
                    try keys.map { key throws(QueryError) in (try sortPath(key.path), key.isAscending) })
            }
        }
    }

    private func sortPath(_ path: PropertyPath) throws(QueryError) -> BoundPath {
        let (bound, hasLength) = try self.path(path)
        guard !bound.hasManyValues, !hasLength else {
            throw QueryError(.query, at: path.place.offset, "SORT and DISTINCT need paths to one value")
        }
        return bound
    }
}
