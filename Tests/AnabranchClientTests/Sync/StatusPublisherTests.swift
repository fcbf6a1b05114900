import Testing

@testable import AnabranchClient

@Suite(.timeLimit(.minutes(30))) struct StatusPublisherTests {
    /// Observers are cancelled while the status changes: neither waits for the other.
    @Test func observersThatAreCancelledHoldUpNobody() async {
        let publisher = StatusPublisher()
        for _ in 0..<400 {
            let observers = (0..<4).map { number in
                Task {
                    if number % 2 == 0 {
                        for await _ in publisher.updates() {}
                    } else {
                        for await _ in publisher.issues() {}
                    }
                }
            }
            async let changes: Void = {
                for number in 1...50 {
                    var status = StoreStatus()
                    status.activity = StoreStatus.Activity(rawValue: UInt8(number % 2))
                    publisher.publish(status)
                }
            }()
            await Task.yield()
            for observer in observers { observer.cancel() }
            for observer in observers { await observer.value }
            await changes
        }
        publisher.end()
    }
}
