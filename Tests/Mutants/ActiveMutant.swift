/// The number of the mutant whose error is made; 0 for none. Becomes a part of the copy of AnabranchCore into which the
/// mutants are woven.
nonisolated(unsafe) package var activeMutant = 0
