import AnabranchRealmFile

/// A file is read, or refused with a reason, damage with its place. A file that can be read as a whole reads the same
/// where damage would be left out.
func fuzzRealmFile(_ bytes: [UInt8]) -> String? {
    do throws(RealmFileError) {
        let file = try RealmFile(RealmFileBytes(bytes))
        let whole = Exported(file, salvages: false), salvaged = Exported(file, salvages: true)
        for error in [whole.error, salvaged.error].compactMap(\.self) + salvaged.problems {
            if let problem = problem(of: error) { return problem }
        }
        if whole.error == nil, salvaged.lines != whole.lines || !salvaged.problems.isEmpty {
            return "salvage leaves out what is not damaged: \(salvaged.problems)"
        }
        for salvages in [false, true] {
            let found =
                problem { () throws(RealmFileError) in _ = try file.syncState(salvages: salvages) }
                ?? problem { () throws(RealmFileError) in _ = try file.information(salvages: salvages) }
            if let found { return found }
        }
        return nil
    } catch {
        return problem(of: error)
    }
}

/// The problem with the error of a reading; nil if there is none.
private func problem(_ read: () throws(RealmFileError) -> Void) -> String? {
    do throws(RealmFileError) {
        try read()
        return nil
    } catch {
        return problem(of: error)
    }
}

private func problem(of error: RealmFileError) -> String? {
    guard !error.reason.isEmpty else { return "an error without a reason" }
    let hasPlace = error.place.offset != nil || error.place.className != nil
    return error.code == .damaged && !hasPlace ? "damage without a place: \(error)" : nil
}

private struct Exported {
    private(set) var lines: [[UInt8]] = []
    private(set) var problems: [RealmFileError] = []
    private(set) var error: RealmFileError?

    init(_ file: RealmFile, salvages: Bool) {
        do {
            problems = try file.export(salvages: salvages, outputLimit: 1 << 20) { lines.append($0) }.problems
        } catch {
            self.error = error as? RealmFileError
        }
    }
}
