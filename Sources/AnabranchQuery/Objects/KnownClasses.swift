import AnabranchCore

/// The classes of a source that were used already: a source makes a class, with all its properties, at each call.
final class KnownClasses {
    private let source: any ObjectSource
    private var byNumber: [ClassID: ClassSchema?] = [:]
    private var byName: [[UInt8]: ClassSchema?] = [:]

    init(_ source: any ObjectSource) { self.source = source }

    func schema(of number: ClassID) -> ClassSchema? {
        if let known = byNumber[number] { return known }
        let schema = source.schema(of: number)
        byNumber[number] = .some(schema)
        return schema
    }

    func schema(ofClass name: [UInt8]) -> ClassSchema? {
        if let known = byName[name] { return known }
        let schema = source.schema(ofClass: name)
        byName[name] = .some(schema)
        return schema
    }
}
