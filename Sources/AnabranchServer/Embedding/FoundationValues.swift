// Dates, UUIDs and data as values, for whoever imports the server alone.
@_exported public import AnabranchFoundation
