import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch explain`: what the merge made of a version, and why.
struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explain what the merge made of a version, and why.",
        discussion: """
            A change that is uploaded is merged with those that its device had not seen. This prints what became of \
            each instruction of the upload: kept, changed or lost; and for each rule that had an effect its code and \
            sentence (Spec/Transform.md), the other instruction, and who made it, when and with which release. It \
            merges again and compares the result with the log. What a device uploaded is kept for \
            history.explain-days days. Nothing is changed, and a running server keeps serving.

            EXAMPLES
              anabranch explain 41 --data ./data --path '/"notes"'
              anabranch explain 41 --data ./data --path '/"notes"' --object Note/7
              anabranch explain 41 --data ./data --path '/"notes"' --json | jq .effects
              anabranch explain 41 --data ./data --path '/"notes"' --anonymize
            """)

    @Argument(help: "A version, as `anabranch log` prints it.")
    var version: UInt64

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Option(help: ArgumentHelp("Only what is about this object.", valueName: "class/key"))
    var object: String?

    @Option(help: "Only what is about this property of the object.")
    var field: String?

    @OptionGroup var anonymity: AnonymityOptions

    @Flag(help: "Print a JSON object (Spec/Explain.md, section 2.3); --object and --field do not shorten it.")
    var json = false

    func validate() throws {
        guard field == nil || object != nil else { throw ValidationError("--field is about an object: give --object.") }
    }

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path)
            let only = try object.map {
                try ObjectAddress(argument: $0, in: file.state(at: file.head.version).exportedClasses)
            }
            let anonymizer = try anonymity.anonymizer(of: file)
            let explanation = try file.withView { view throws(HistoryError) in
                try view.explanation(of: ServerVersion(rawValue: version), anonymizedBy: anonymizer)
            }
            if json { return output(explanation.json) }
            let shown = only.map { anonymizer?.object($0) ?? $0 }
            let shownField = field.map { name in anonymizer?.name(Array(name.utf8)) ?? Array(name.utf8) }
            ExplanationText(explanation, only: shown, field: shownField).write(to: output)
        }
    }
}

/// An explanation for people.
struct ExplanationText {
    /// The most effects on one instruction that are printed.
    private static let effectsMax = 20

    private let explanation: Explanation
    private let object: ObjectAddress?
    private let field: [UInt8]?

    init(_ explanation: Explanation, only object: ObjectAddress?, field: [UInt8]?) {
        (self.explanation, self.object, self.field) = (explanation, object, field)
    }

    func write(to output: (String) -> Void) {
        output("version \(explanation.author.text)")
        if let time = explanation.author.integrated { output("integrated by the server at \(time.date)") }
        if let base = explanation.base {
            let unseen = counted(explanation.unseenCount, "version")
            output("made on version \(base); it had not seen \(unseen) of others")
        } else {
            output("made by the server itself: nothing was merged")
        }
        switch explanation.certainty {
        case .exact:
            if explanation.unseenCount > 0, !explanation.isUploadKept {
                output("what was uploaded is what entered the log, unless it is older than history.explain-days")
            }
        case .uploadForgotten:
            output("what was uploaded is no longer kept: this is what entered the log, and what it lost cannot be told")
        case .approximate:
            output("merging again gives something else: this is what was uploaded, and whether the log has it so; the")
            output("device was merged with its view of the log, which is not kept")
        }
        output("")
        let effects = Dictionary(grouping: explanation.effects) { $0.position }
        for (position, instruction) in explanation.instructions.enumerated() where isAsked(instruction.uploaded) {
            write(instruction, effects[position] ?? [], to: output)
        }
        for effect in effects[nil] ?? [] where isAsked(effect.own.before) { write(effect, to: output) }
        for decision in explanation.decisions where object == nil || decision.object == object {
            output("\(decision.isRefused ? "refused " : "left    ") \(decision.object.text): \(decision.sentence)")
            if let text = decision.text { output("         \(text)") }
        }
        output(summary)
    }

    private func isAsked(_ form: Explanation.Form) -> Bool {
        (object == nil || form.object == object) && (field == nil || form.field == field)
    }

    private func write(
        _ instruction: Explanation.Instruction, _ effects: [Explanation.Effect], to output: (String) -> Void
    ) {
        let uploaded = instruction.uploaded.text
        if let logged = instruction.logged?.text {
            output("\(logged == uploaded ? "kept   " : "changed")  \(uploaded)")
            if logged != uploaded { output("   to    \(logged)") }
        } else {
            let why = instruction.isRefused ? "refused  " : explanation.certainty == .exact ? "lost     " : "missing  "
            output("\(why)\(uploaded)")
        }
        for effect in effects.prefix(Self.effectsMax) { write(effect, to: output) }
        if effects.count > Self.effectsMax {
            output("         … and \(effects.count - Self.effectsMax) more effects: --json prints all")
        }
    }

    private func write(_ effect: Explanation.Effect, to output: (String) -> Void) {
        output("         \(effect.rule.rawValue): \(effect.rule.sentence)")
        let other = effect.other
        let fate = !other.isAffected ? "" : other.after == nil ? " (overruled)" : " (moved)"
        output("         met version \(effect.author.text)")
        output("             \(other.before.text)\(fate)")
    }

    private var summary: String {
        let asked = explanation.instructions.filter { isAsked($0.uploaded) }
        guard !asked.isEmpty else { return "nothing of version \(explanation.author.version) is about that" }
        let lost = asked.filter { $0.logged == nil && !$0.isRefused }.count, refused = asked.filter(\.isRefused).count
        let changed = asked.filter { $0.logged != nil && $0.logged?.text != $0.uploaded.text }.count
        let kept = asked.count - lost - refused - changed
        let refusals = refused > 0 ? ", \(refused) refused by the app's rules or the device's view" : ""
        return "\(counted(asked.count, "instruction")): \(kept) kept, \(changed) changed, \(lost) lost\(refusals)"
    }
}

extension Author {
    /// `41 by client 3, user "anna", release 14.5.2, 2026-11-28T10:00:00.000Z`.
    var text: String {
        var words = "\(version) by \(client == 0 ? "the server" : "client \(client)")"
        if let user { words += ", user \(JSONText.quoted(user))" }
        if uploader.release != 0 {
            words +=
                ", release \(uploader.release / 1_000_000).\(uploader.release / 1000 % 1000).\(uploader.release % 1000)"
        }
        return "\(words), \(time.date.trimmingCharacters(in: .whitespaces))"
    }
}

extension ObjectAddress {
    /// The name of the class.
    var classText: String { String(decoding: className, as: UTF8.self) }

    /// The key as JSON.
    var keyText: String {
        var text: [UInt8] = []
        JSONText.append(key, .exact, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// The object as `--object` takes it.
    var text: String { "\(classText)/\(key.argument)" }

    /// The object that `Class/key` names: the key is a number, a text, 24 hexadecimal digits of an ObjectId, a UUID,
    /// `null`, or `hi-lo` of a GlobalKey, as the class has it.
    ///
    /// - Throws: `InputError` if there is no such class, or its keys have another form.
    init(argument: String, in classes: [ExportedClass]) throws {
        let parts = argument.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw InputError(description: "\(argument): an object is written Class/key, for example Note/7")
        }
        let classes = classes.filter { $0.kind != .embedded }, text = String(parts[1])
        guard let schema = classes.first(where: { $0.name.utf8.elementsEqual(parts[0].utf8) }) else {
            throw InputError.noClass(String(parts[0]), of: classes.map(\.name))
        }
        guard let key = PrimaryKey(argument: text, of: schema.key) else {
            let type = schema.key.map { "\($0.type)" } ?? "GlobalKey, hi-lo in hexadecimal digits"
            throw InputError(description: "\(argument): the keys of \(parts[0]) are of type \(type)")
        }
        self.init(parts[0].utf8, key)
    }
}

extension PrimaryKey {
    /// The key as `init(argument:of:)` reads it.
    fileprivate var argument: String {
        switch self {
        case .string(let text): String(decoding: text, as: UTF8.self)
        case .globalKey(let key): "\(String(key.high, radix: 16))-\(String(key.low, radix: 16))"
        case .null, .int, .objectID, .uuid: description
        }
    }

    fileprivate init?(argument text: String, of property: ExportedClass.Property?) {
        guard let property else {
            let parts = text.split(separator: "-").map { UInt64($0, radix: 16) }
            guard parts.count == 2, let high = parts[0], let low = parts[1] else { return nil }
            self = .globalKey(GlobalKey(high: high, low: low))
            return
        }
        if property.isNullable, text == "null" {
            self = .null
            return
        }
        switch property.type {
        case .int:
            guard let number = Int64(text) else { return nil }
            self = .int(number)
        case .string: self = .string(Array(text.utf8))
        case .objectID:
            guard let id = ObjectID(text) else { return nil }
            self = .objectID(id)
        case .uuid:
            guard let id = UUIDBytes(text: text) else { return nil }
            self = .uuid(id)
        default: return nil
        }
    }
}
