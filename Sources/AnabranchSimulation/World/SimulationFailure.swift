/// A violation that a simulation has found.
package struct SimulationFailure: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
    if !holds { throw SimulationFailure(what()) }
}
