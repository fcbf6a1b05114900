import Foundation
import Testing

/// The deliberate errors that tests have to find (`scripts/mutants`, `scripts/list-mutants`, `scripts/planted`).
@Suite struct MutantTests {
    @Test(arguments: [
        ("Whole", "Sources"), ("Nodes", "Sources"), ("Rules", "Sources/AnabranchCore/Merge"),
        ("Lists", "Sources/AnabranchCore/Merge"),
    ])
    func everyErrorCanBeMade(list: String, folder: String) throws {
        let lines = try TextFile("Tests/Mutants/\(list)/mutants.txt").lines.filter { !$0.hasPrefix("#") }
        let errors = lines.split(separator: "").map(Array.init)
        #expect(errors.count > 10)
        for error in errors {
            let place = try #require(error.count < 3 ? nil : error[1].split(separator: " ").map(String.init))
            let text = try TextFile("\(folder)/\(place[0])").lines.joined(separator: "\n")
            let name = (place[1].hasPrefix("init") ? "" : "func ") + place[1]
            let starts = ["(", "<"].compactMap { text.range(of: name + $0)?.upperBound }
            let body = text[(starts.min() ?? text.endIndex)...].components(separatedBy: "func ")[0]
            let count = body.components(separatedBy: error[2].dropFirst(2)).count - 1
            #expect(count == 1, "\(error[0]): the statement stands \(count) times in \(place[1]) of \(place[0])")
        }
    }
}
