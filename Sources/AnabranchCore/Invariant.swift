/// Stops the process if a condition does not hold that this library itself guarantees, whatever a peer sends.
///
/// It does so only in builds with `-D ANABRANCH_CHECKED`, in which the tests run as well (`scripts/checked`); in all
/// others it does nothing.
@inline(__always)
func invariant(_ condition: @autoclosure () -> Bool, _ message: @autoclosure () -> String) {
    #if ANABRANCH_CHECKED
    precondition(condition(), message())
    #endif
}

/// True if `invariant` checks its condition: for checks that need more than an expression.
@inline(__always)
var checksInvariants: Bool {
    #if ANABRANCH_CHECKED
    true
    #else
    false
    #endif
}
