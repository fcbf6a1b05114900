// Values, keys, errors and modes, for code that imports the client alone.
@_exported public import AnabranchCore
@_exported public import AnabranchFoundation
@_exported public import AnabranchProtocol
@_exported public import AnabranchReplica
