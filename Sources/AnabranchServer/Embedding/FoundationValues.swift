// Dates, UUIDs and data as values, for programs that import the server alone.
@_exported public import AnabranchFoundation
