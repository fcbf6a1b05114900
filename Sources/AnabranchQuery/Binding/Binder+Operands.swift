import AnabranchCore

// Operands and their static types (`Spec/Query.md`, section 5).

extension Binder {
    /// - Parameter type: the type as which constants are read; nil if the other side is not known yet.
    func operand(_ operand: Operand, towards type: StaticType?) throws(QueryError) -> BoundOperand {
        switch operand {
        case .constant(let constant): return try self.constant(constant, towards: type)
        case .list(let list): return try self.list(list, towards: type)
        case .property(let property): return try self.property(property)
        case .aggregate(let aggregate): return try self.aggregate(aggregate)
        case .arithmetic(let operation, let left, let right):
            return try arithmetic(operation, left, right, towards: type)
        case .subquery(let subquery): return try self.subquery(subquery)
        }
    }

    // MARK: Constants

    private func constant(_ constant: Constant, towards type: StaticType?) throws(QueryError) -> BoundOperand {
        if constant.form == .argument, case .list(let values) = try argument(constant.text, constant.place) {
            return BoundOperand(kind: .list(values), type: .mixed, isMany: true)
        }
        return operand(of: try value(constant, towards: type), towards: type)
    }

    /// Binds a constant value. Null compared with a string or binary is one itself; the names of types are kinds of
    /// values.
    private func operand(of value: StateValue, towards type: StaticType?) -> BoundOperand {
        var own = value.type
        if value.isNull, type == .string || type == .binary { own = type ?? .null }
        if type == .typeOf, !value.isNull { own = .typeOf }
        return BoundOperand(kind: .constant(value), type: own)
    }

    private func list(_ list: ConstantList, towards type: StaticType?) throws(QueryError) -> BoundOperand {
        var values: [StateValue] = []
        if let number = list.argument {
            guard case .list(let given) = try argument(number, list.place) else {
                throw QueryError(.query, at: list.place.offset, "the argument after a quantifier must be a list")
            }
            values =
                type == .typeOf
                ? try given.map { name throws(QueryError) in try types(named: name, list.place) } : given
        }
        for constant in list.constants {
            values.append(try self.value(constant, towards: type))
        }
        return BoundOperand(
            kind: .list(values), type: type == .typeOf ? .typeOf : .mixed, isMany: true, quantifier: list.quantifier)
    }

    // MARK: Properties

    private func property(_ property: PropertyOperand) throws(QueryError) -> BoundOperand {
        let offset = property.path.place.offset
        let (path, hasLength) = try self.path(property.path)
        let isMany = path.hasManyValues
        if property.quantifier != nil, !isMany, !path.leadsIntoCollection, !path.endsAtObjects {
            let reason = "the path after \(property.quantifier?.rawValue ?? "") has only one value"
            throw QueryError(.query, at: offset, reason)
        }
        var operand = BoundOperand(
            kind: .path(path), type: path.type, isMany: isMany, quantifier: property.quantifier)
        if hasLength { (operand.kind, operand.type) = (.lengths(path), .int) }
        switch property.part {
        case .values: break
        case .size:
            guard path.endsAtObjects || path.endsAtCollection || path.type.holdsText, !hasLength else {
                throw QueryError(
                    .query, at: offset, "@size and @count are for collections, strings, binaries and links")
            }
            (operand.kind, operand.type) = (.size(path), .int)
            operand.isMany = isMany && !path.endsAtObjects && !path.steps.isEmpty && !path.isSingle
        case .type:
            operand.kind = .typeOf(path)
            operand.type = .typeOf
            if !path.endsAtObjects, path.type != .mixed { operand.isMany = false }
        }
        return operand
    }

    // MARK: Aggregates

    private func aggregate(_ aggregate: Aggregate) throws(QueryError) -> BoundOperand {
        let offset = aggregate.path.place.offset
        let path = try self.path(aggregate.path).path
        let wrong = QueryError(
            .query, at: offset,
            "\(aggregate.function.rawValue) is not for values of this type: numbers and Mixed have it")
        guard let name = aggregate.property else {
            guard case .property(let property, let rest) = path.end, property.collection != .single, rest.isEmpty,
                path.type.isNumericOrMixed
            else { throw wrong }
            let bound = BoundAggregate(path: path, function: aggregate.function, property: nil, valueType: path.type)
            return BoundOperand(
                kind: .aggregate(bound), type: StaticType(property.type), isMany: !path.isSingle)
        }
        guard path.endsAtObjects, let number = path.objectClass, let schema = classes.schema(of: number) else {
            throw QueryError(.query, at: offset, "\(aggregate.function.rawValue) of a property needs a path to objects")
        }
        guard let property = schema.property(named: name), !property.isKey, property.collection == .single else {
            throw QueryError(.query, at: offset, unknown(name, in: schema) + " that can stand here")
        }
        try rules?.checkAggregate(over: path, at: offset)
        let type = StaticType(property.type)
        let isTotal = aggregate.function == .sum || aggregate.function == .average
        guard type.isNumericOrMixed || type == .timestamp && !isTotal else { throw wrong }
        let bound = BoundAggregate(path: path, function: aggregate.function, property: property, valueType: type)
        return BoundOperand(kind: .aggregate(bound), type: aggregate.function.resultType(of: type))
    }

    // MARK: Arithmetic

    private func arithmetic(
        _ operation: Arithmetic, _ left: Operand, _ right: Operand, towards type: StaticType?
    ) throws(QueryError) -> BoundOperand {
        if left.isConstant, right.isConstant {
            let (first, second) = (try operand(left, towards: type), try operand(right, towards: type))
            guard let first = first.constant, let second = second.constant else {
                throw QueryError(.query, at: left.offset, "a list cannot be calculated with")
            }
            return operand(of: operation(first, second), towards: type)
        }
        let (first, second): (BoundOperand, BoundOperand)
        if right.isConstant {
            first = try operand(left, towards: nil)
            second = try operand(right, towards: first.type)
        } else {
            second = try operand(right, towards: nil)
            first = try operand(left, towards: left.isConstant ? second.type : nil)
        }
        for operand in [first, second] where !operand.type.isNumericOrMixed {
            throw QueryError(.query, at: left.offset, "\(operand.type.name) cannot be calculated with")
        }
        try checkFinite(first, beside: second, left.offset)
        try checkFinite(second, beside: first, right.offset)
        return BoundOperand(
            kind: .arithmetic(operation, first, second), type: first.type, isMany: first.isMany || second.isMany,
            quantifier: first.isConstant ? second.quantifier : first.quantifier)
    }

    // MARK: Subqueries

    private func subquery(_ subquery: Subquery) throws(QueryError) -> BoundOperand {
        let offset = subquery.path.place.offset
        try rules?.refuse("subqueries are not allowed", at: offset)
        let path = try self.path(subquery.path).path
        guard path.endsAtObjects, path.hasManyValues, let number = path.objectClass,
            let schema = classes.schema(of: number)
        else { throw QueryError(.query, at: offset, "a subquery needs a path to several objects") }
        guard subquery.variable.first == UInt8(ascii: "$") else {
            throw QueryError(.query, at: offset, "the variable of a subquery begins with $")
        }
        var inner = self
        inner.schema = schema
        inner.variable = subquery.variable
        let condition = try inner.condition(subquery.condition)
        return BoundOperand(kind: .subquery(path, variable: subquery.variable, condition), type: .int)
    }
}

extension BoundPath {
    /// True if there can be several values.
    var hasManyValues: Bool {
        if !isSingle { return true }
        switch end {
        case .objects: return false
        case .keys: return true
        case .property(let property, _): return property.collection != .single
        }
    }

    /// True if the path continues past the property at its end.
    fileprivate var leadsIntoCollection: Bool {
        if case .property(_, let rest) = end { !rest.isEmpty } else { false }
    }
}

extension Aggregate.Function {
    func resultType(of type: StaticType) -> StaticType {
        switch (self, type) {
        case (.min, _), (.max, _): type
        case (_, .decimal), (_, .mixed): .decimal
        case (.sum, .int): .int
        default: .double
        }
    }
}
