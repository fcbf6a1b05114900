import AnabranchCore

/// The changesets of one side.
struct WrittenSide {
    var changesets: [TaggedChangeset] = []

    /// Writes the steps in order, on a document that starts as the shape says.
    init(_ steps: [RandomMerge.Step], on shape: RandomMerge.Shape) {
        var document = ModelDocument(shape)
        var writer = StepWriter(shape)
        for step in steps {
            if step.startsChangeset || changesets.isEmpty {
                finish(&writer)
                changesets.append(TaggedChangeset(bytes: [], tag: step.tag))
            }
            writer.write(step, on: &document)
        }
        finish(&writer)
    }

    private mutating func finish(_ writer: inout StepWriter) {
        guard let last = changesets.indices.last else { return }
        changesets[last].bytes = writer.takeChangeset()
    }
}

/// The parts of a document that instructions depend on: its containers, and the number of elements in each list.
struct ModelDocument {
    /// The content of a field, an element or an entry.
    indirect enum Content: Sendable {
        case value
        case list([Content])
        /// Indexed by the number of the key.
        case dictionary([Content])
        /// An embedded object, which has one list.
        case object(Content)

        static var newDictionary: Content { .dictionary([.value, .value, .value]) }
    }

    struct Object {
        var lists: [Content]
        var dictionary = Content.newDictionary
        var mixed = Content.value
    }

    var objects: [Object]

    init(_ shape: RandomMerge.Shape) {
        let elements = (0..<shape.listSize).map { number -> Content in
            guard let distance = shape.containersOneIn, number % distance == 0 else { return .value }
            switch number / distance % 3 {
            case 0: return .list([.value, .value])
            case 1: return .newDictionary
            default: return .object(.list([]))
            }
        }
        let object = Object(lists: Array(repeating: .list(elements), count: shape.lists))
        objects = Array(repeating: object, count: shape.objects)
    }

    mutating func renewObject(_ number: Int) {
        objects[number] = Object(lists: objects[number].lists.map { _ in .list([]) })
    }
}
