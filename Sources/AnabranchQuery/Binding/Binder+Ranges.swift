import AnabranchCore

// Ranges and regions (`Spec/Query.md`, sections 6.6 and 6.9).

extension Binder {
    func between(_ operand: Operand, _ bounds: ConstantList) throws(QueryError) -> Condition {
        guard bounds.constants.count == 2 else {
            throw QueryError(.query, at: bounds.place.offset, "BETWEEN needs a list of two constants")
        }
        let bound = try boundOperand(ofRange: operand)
        if bound.path?.endsAtCollection == true, bound.quantifier != .all {
            throw QueryError(.query, at: operand.offset, "BETWEEN on a collection needs ALL")
        }
        if let property = bound.plainProperty, bound.type == .int || bound.type == .timestamp {
            let low = try value(bounds.constants[0], towards: bound.type)
            let high = try value(bounds.constants[1], towards: bound.type)
            guard low.type == bound.type, high.type == bound.type else {
                throw QueryError(.query, at: bounds.place.offset, "both bounds must be of type \(bound.type.name)")
            }
            return .between(property, low, high)
        }
        func half(_ relation: Relation, _ constant: Constant) throws(QueryError) -> Condition {
            let right = try self.operand(.constant(constant), towards: bound.type)
            try checkPair(bound, right, operand.offset)
            try checkFinite(right, beside: bound, constant.place.offset)
            let comparison = Comparison(
                left: operand, relation: relation, ignoresCase: false, right: .constant(constant))
            return try condition(bound, right, comparison)
        }
        return .and([try half(.greaterOrEqual, bounds.constants[0]), try half(.lessOrEqual, bounds.constants[1])])
    }

    /// Binds the operand of a range. A range is printed and evaluated as two comparisons: with subqueries nested in
    /// each other, the number of copies would have no bound.
    private func boundOperand(ofRange operand: Operand) throws(QueryError) -> BoundOperand {
        if operand.isConstant { throw comparesConstants(operand.offset) }
        guard operand.holdsSubquery else { return try self.operand(operand, towards: nil) }
        guard !isWithinRange else {
            let reason = "BETWEEN with a subquery cannot stand within another one"
            throw QueryError(.limit, at: operand.offset, reason)
        }
        var range = self
        range.isWithinRange = true
        return try range.operand(operand, towards: nil)
    }

    func geoWithin(_ property: PropertyOperand, _ shape: Shape) throws(QueryError) -> Condition {
        let offset = property.path.place.offset
        let operand = try self.operand(.property(property), towards: nil)
        guard let path = operand.path, path.endsAtObjects, operand.isEmbedded,
            let schema = path.objectClass.flatMap(classes.schema(of:))
        else { throw QueryError(.query, at: offset, "GEOWITHIN needs an embedded object") }
        let region: GeoRegion
        do throws(GeoRegion.Problem) {
            region = try GeoRegion(shape, for: schema)
        } catch {
            throw QueryError(.query, at: offset, error.reason)
        }
        return .geoWithin(path, shape, region, operand.quantifier)
    }
}
