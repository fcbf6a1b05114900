import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

@Suite struct ClientQueueTests {
    private struct Element: Equatable {
        var ident: ClientFileID
        var number: Int
    }

    @Test("whatever is removed, the queue is what a list would be", arguments: 1...50 as ClosedRange<UInt64>)
    func list(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var queue = ClientQueue<Element> { $0.ident }, list: [Element] = []
        for step in 0..<200 {
            for number in 0..<Int.random(in: 0...100, using: &random) {
                let ident = ClientFileID(UInt64.random(in: 1...5, using: &random))
                queue.append(Element(ident: ident, number: step * 100 + number))
                list.append(Element(ident: ident, number: step * 100 + number))
            }
            var counts: [ClientFileID: Int] = [:], rest: [ClientFileID: Int] = [:]
            for ident in (1...5).map({ ClientFileID($0) }) {
                let own = list.filter { $0.ident == ident }
                if Bool.random(using: &random) { counts[ident] = Int.random(in: 0...own.count, using: &random) }
                if !own.isEmpty { rest[ident] = own.count }
            }
            #expect(queue.counts(from: Set(rest.keys)) == rest, "seed \(seed)")
            var removed: [Element] = [], left = counts
            list.removeAll { element in
                guard let count = left[element.ident], count > 0 else { return false }
                left[element.ident] = count - 1
                removed.append(element)
                return true
            }
            #expect(queue.removeFirst(counts) == removed, "seed \(seed)")
            #expect(Array(queue) == list && queue.count == list.count, "seed \(seed)")
        }
        #expect(queue.removeAll() == list && queue.count == 0, "seed \(seed)")
    }

    @Test func whatIsFarBehindIsNotLookedAt() {
        var looks = 0
        var queue = ClientQueue<Element> { element in
            looks += 1
            return element.ident
        }
        for number in 0..<100_000 { queue.append(Element(ident: ClientFileID(UInt64(number % 10)), number: number)) }
        looks = 0
        for round in 1...100 {
            #expect(queue.removeFirst([3: 5]).last?.number == round * 50 - 7)
        }
        #expect(looks < 1_000_000)
    }
}
