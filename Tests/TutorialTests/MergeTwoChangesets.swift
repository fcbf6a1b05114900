import AnabranchCore
import Testing

/// The code of the tutorials, as a program that depends on the libraries would write it. A repository test compares
/// what stands between the marks with the pages.
@Suite struct MergeTwoChangesetsTests {
    @Test func theTutorialIsTrue() throws {
        // Begin of AnabranchCore/MergeTwoChangesets.md
        var base = ObjectGraph()
        _ = try base.write(as: 1) { tx in
            try tx.addClass("Note", key: "id", .int)
            try tx.addColumn("title", .string, to: "Note")
            try tx.addColumn("tags", .string, collection: .list, to: "Note")
            let note = try tx.create("Note", key: 1, ["title": "Milk"])
            try note.list("tags").append("shop")
        }

        var ann = base
        let changeOfAnn = try ann.write(as: 2) { tx in
            let note = try tx.objects("Note")[0]
            note["title"] = "Milk and bread"
            try note.list("tags").insert("today", at: 0)
        }.changeset

        var ben = base
        let changeOfBen = try ben.write(as: 3) { tx in
            let note = try tx.objects("Note")[0]
            note["title"] = "Oat milk"
            try note.list("tags").append("home")
        }.changeset

        var arena = ChangesetArena()
        let local = try arena.decode(changeOfAnn, version: 2, tag: OriginTag(timestamp: 1000, ident: 2))
        let incoming = try arena.decode(changeOfBen, version: 2, tag: OriginTag(timestamp: 2000, ident: 3))
        try arena.merge(local: [local], incoming: [incoming])

        try ann.apply(incoming, of: arena)
        try ben.apply(local, of: arena)

        let note = try ann.read { tx in
            let note = try tx.objects("Note")[0]
            return (title: note["title"], tags: try note.list("tags").values)
        }
        // note.title is "Oat milk", note.tags is ["today", "shop", "home"], and Ben reads the same.

        let annsMergedBytes = arena.encoded(local)
        let annsInstructions = arena.instructions(of: local).count
        let bensInstructions = arena.text(of: incoming)

        var later = ChangesetArena()
        try later.decode(changeOfAnn, version: 2, tag: OriginTag(timestamp: 1000, ident: 2))
        try later.decode(changeOfBen, version: 2, tag: OriginTag(timestamp: 2000, ident: 3))
        var merge = Merge()
        merge.begin(local: [0], incoming: [1], in: later)
        while try !merge.advance(in: &later, pairs: 100_000) {
            // Look after something else.
        }
        // End of the page

        #expect(note.title == "Oat milk")
        #expect(note.tags == ["today", "shop", "home"])
        #expect(try ann.canonicalJSON() == ben.canonicalJSON())
        #expect(annsMergedBytes != changeOfAnn)
        #expect(annsInstructions == 1)
        #expect(bensInstructions.contains("Oat milk"))
        #expect(later.encoded(0..<2) == arena.encoded(0..<2))
    }
}
