/// Stops the process where something does not hold that this library itself sees to, whatever a peer sends.
///
/// Only in builds with `-D ANABRANCH_CHECKED`, in which the tests run as well (`scripts/checked`); it is nothing in all
/// others.
@inline(__always)
func invariant(_ condition: @autoclosure () -> Bool, _ message: @autoclosure () -> String) {
    #if ANABRANCH_CHECKED
    precondition(condition(), message())
    #endif
}

/// Whether `invariant` looks: for checks that need more than an expression.
@inline(__always)
var checksInvariants: Bool {
    #if ANABRANCH_CHECKED
    true
    #else
    false
    #endif
}
