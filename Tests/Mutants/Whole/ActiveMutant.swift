import Foundation

/// The number of the mutant whose error is made; 0 for none. Becomes a part of AnabranchCore in the copy of the sources
/// into which the mutants are woven.
package let activeMutant = Int(ProcessInfo.processInfo.environment["ANABRANCH_MUTANT"] ?? "") ?? 0
