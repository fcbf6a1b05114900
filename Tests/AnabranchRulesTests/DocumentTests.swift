import AnabranchCore
import Testing

@testable import AnabranchRules

/// Documents of MongoDB as lines of an export.
@Suite struct DocumentTests {
    private static let schema = #"""
        {"title": "Task", "required": ["_id", "done"], "properties": {
            "_id": {"bsonType": "objectId"}, "done": {"bsonType": "bool"}, "title": {"bsonType": "string"},
            "count": {"bsonType": "long"}, "size": {"bsonType": "double"}, "price": {"bsonType": "decimal"},
            "due": {"bsonType": "date"}, "token": {"bsonType": "uuid"}, "data": {"bsonType": "binData"},
            "any": {"bsonType": "mixed"}, "tags": {"bsonType": "array", "items": {"bsonType": "string"}},
            "marks": {"bsonType": "array", "uniqueItems": true, "items": {"bsonType": "int"}},
            "extra": {"bsonType": "object", "additionalProperties": {"bsonType": "int"}},
            "place": {"bsonType": "object", "title": "Place", "properties": {"city": {"bsonType": "string"}}},
            "owner": {"bsonType": "string"}, "parts": {"bsonType": "array", "items": {"bsonType": "objectId"}}}}
        """#
    private static let person = #"""
        {"title": "Person", "properties": {"_id": {"bsonType": "string"}}, "required": ["_id"]}
        """#
    private static let relationships = #"""
        {"owner": {"ref": "#/relationship/db/app/people", "foreign_key": "_id"},
         "parts": {"ref": "#/relationship/db/app/tasks", "foreign_key": "_id", "is_list": true}}
        """#

    private static func classes() throws -> [ExportedClass] {
        let folder = "data_sources/db/app/"
        return try AppExport(files: [
            AppFile(path: folder + "tasks/schema.json", bytes: schema.utf8),
            AppFile(path: folder + "tasks/relationships.json", bytes: relationships.utf8),
            AppFile(path: folder + "people/schema.json", bytes: person.utf8),
        ]).schema.exportedClasses
    }

    private static func fields(_ document: String) throws -> String {
        var reader = try DocumentReader(try classes(), className: "Task")
        let id = #"{"_id":{"$oid":"5f0c1e2d3b4a59687766aabb"},"#
        let line = String(
            decoding: try reader.line(DocumentValue(line: Array((id + document + "}").utf8))), as: UTF8.self)
        let head = #"["Task",{"oid":"5f0c1e2d3b4a59687766aabb"},"#
        #expect(line.hasPrefix(head))
        return String(line.dropFirst(head.count).dropLast())
    }

    /// Both forms of extended JSON, those of old versions, and numbers of another size.
    @Test(arguments: [
        (#""title":"a""#, #"{"title":"a"}"#), (#""title":null"#, #"{"title":null}"#),
        (#""count":5"#, #"{"count":{"int":"5"}}"#), (#""count":{"$numberLong":"5"}"#, #"{"count":{"int":"5"}}"#),
        (#""count":9007199254740993"#, #"{"count":{"int":"9007199254740993"}}"#),
        (#""count":9007199254740993.0"#, #"{"count":{"int":"9007199254740993"}}"#),
        (#""any":9007199254740993.0"#, #"{"any":{"double":"4340000000000000"}}"#),
        (#""count":5.0"#, #"{"count":{"int":"5"}}"#), (#""size":1"#, #"{"size":{"double":"3ff0000000000000"}}"#),
        (#""size":{"$numberDouble":"1.0"}"#, #"{"size":{"double":"3ff0000000000000"}}"#),
        (#""size":{"$numberDouble":"-Infinity"}"#, #"{"size":{"double":"fff0000000000000"}}"#),
        (#""price":{"$numberDecimal":"1.50"}"#, #"{"price":{"dec":"1.50"}}"#),
        (#""due":{"$date":"2020-01-02T03:04:05.678Z"}"#, #"{"due":{"ts":["1577934245",678000000]}}"#),
        (#""due":{"$date":{"$numberLong":"-1"}}"#, #"{"due":{"ts":["0",-1000000]}}"#),
        (#""due":{"$date":1577934245678}"#, #"{"due":{"ts":["1577934245",678000000]}}"#),
        (
            #""token":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}"#,
            #"{"token":{"uuid":"00112233-4455-6677-8899-aabbccddeeff"}}"#
        ),
        (
            #""token":{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}"#,
            #"{"token":{"uuid":"00112233-4455-6677-8899-aabbccddeeff"}}"#
        ),
        (
            #""token":{"$uuid":"00112233445566778899AABBCCDDEEFF"}"#,
            #"{"token":{"uuid":"00112233-4455-6677-8899-aabbccddeeff"}}"#
        ),
        (#""data":{"$binary":{"base64":"AP8=","subType":"00"}}"#, #"{"data":{"bin":"00ff"}}"#),
        (#""data":{"$binary":"AP8=","$type":"ffffff80"}"#, #"{"data":{"bin":"00ff"}}"#),
        (#""data":{"$binary":"AP8=","$type":"00"}"#, #"{"data":{"bin":"00ff"}}"#),
        (#""any":{"$numberDouble":"2.0"}"#, #"{"any":{"double":"4000000000000000"}}"#),
        (#""any":{"a":[1,{"b":null}]}"#, #"{"any":{"dict":{"a":{"list":[{"int":"1"},{"dict":{"b":null}}]}}}}"#),
        (#""any":{"$ref":"Person","$id":"ann"}"#, #"{"any":{"link":["Person","ann"]}}"#),
        (#""tags":["b","a","b"]"#, #"{"tags":{"list":["b","a","b"]}}"#), (#""tags":null"#, #"{"tags":{"list":[]}}"#),
        (#""marks":[2,1,2]"#, #"{"marks":{"set":[{"int":"1"},{"int":"2"}]}}"#),
        (#""extra":{"b":1,"a":2}"#, #"{"extra":{"dict":{"a":{"int":"2"},"b":{"int":"1"}}}}"#),
        (#""place":{"city":"Ulm"}"#, #"{"place":{"city":"Ulm"}}"#), (#""place":null"#, #"{"place":null}"#),
        (#""owner":"ann""#, #"{"owner":{"link":["Person","ann"]}}"#),
        (#""owner":{"$ref":"Person","$id":"ann"}"#, #"{"owner":{"link":["Person","ann"]}}"#),
        // Names are bytes: these are two.
        (
            #""extra":{"\u00e9":1,"e\u0301":2}"#,
            "{\"extra\":{\"dict\":{\"e\u{301}\":{\"int\":\"2\"},\"\u{e9}\":{\"int\":\"1\"}}}}"
        ),
        (
            #""parts":[{"$oid":"5f0c1e2d3b4a59687766aabc"}]"#,
            #"{"parts":{"list":[{"link":["Task",{"oid":"5f0c1e2d3b4a59687766aabc"}]}]}}"#
        ),
    ])
    func aDocumentBecomesALine(_ document: String, _ fields: String) throws {
        #expect(try Self.fields(document) == fields)
    }

    @Test(
        arguments: [
            (#""title":5"#, "title", "5 is not of type String"), (#""count":1.5"#, "count", "1.5 is not of type Int"),
            (#""done":null"#, "done", "null, but the schema has the field as required"),
            (#""tags":"a""#, "tags", #""a" is not an array"#),
            (#""place":{"city":1}"#, "place.city", "1 is not of type String"),
            (#""due":"2020-01-02""#, "due", #""2020-01-02" is not of type Timestamp"#),
            (#""size":9007199254740993"#, "size", "9007199254740993 is not of type Double"),
            (#""place":{"city":{"$numberInt":"1"}}"#, "place.city", "1 is not of type String"),
            (#""extra":{"a":1,"b":1.5}"#, "extra", "1.5 is not of type Int"),
            (#""marks":[1,1.5]"#, "marks", "1.5 is not of type Int"),
            (#""count":1e19"#, "count", "1e19 is not of type Int"),
            (#""marks":[0.99999999999999999999]"#, "marks", nil), (#""extra":{"a":1e-400}"#, "extra", nil),
            (#""any":{"$oid":"07"}"#, "any", #"{"$oid":"07"} is not a value that objects can hold"#),
            (#""any":{"a":[{"$foo":1}]}"#, "any", nil), (#""any":[12345678901234567891]"#, "any", nil),
            (#""due":{"$date":"2024-02-30T00:00:00Z"}"#, "due", nil),
            (#""token":{"$binary":{"base64":"AP8=","subType":"04"}}"#, "token", nil),
            (#""owner":{"$oid":"5f0c1e2d3b4a59687766aabc"}"#, "owner", nil),
            (#""owner":{"$ref":"Task","$id":"ann"}"#, "owner", nil), (#""extra":{"$numberLong":1}"#, "extra", nil),
            (#""extra":{"$ref":"Person","$id":1}"#, "extra", nil),
            (#""place":{"$ref":"Person","$id":1}"#, "place", nil), (#""place":{"city":"Ulm","$x":1}"#, "place", nil),
            (#""any":{"$undefined":{"a":1}}"#, "any", nil),
            (#""any":{"$binary":{"base64":"AP8=","subType":"00","more":1}}"#, "any", nil),
            (#""any":{"$uuid":"0011223344-5566778899aabbccddeeff"}"#, "any", nil),
        ] as [(String, String, String?)])
    func aMistakeIsNamedWithItsField(_ document: String, _ field: String, _ reason: String?) throws {
        let error = #expect(throws: LineError.self) { try Self.fields(document) }
        #expect(error?.field == field && (reason == nil || error?.reason == reason), "\(String(describing: error))")
    }

    @Test func aKeyIsTheIntegerThatItsTextTells() throws {
        let property = ExportedClass.Property.self
        let declared = ExportedClass(
            name: "N", kind: .topLevel, key: property.init(name: "_id", type: .int, isNullable: false),
            properties: [
                property.init(name: "any", type: .null, isNullable: true),
                property.init(name: "next", type: .link, isNullable: true, target: "N"),
            ])
        func line(_ id: String, _ any: String, _ next: String) throws -> String {
            var reader = try DocumentReader([declared], className: "N")
            let document = #"{"_id":\#(id),"any":{"$ref":"N","$id":\#(any)},"next":\#(next)}"#
            return String(decoding: try reader.line(DocumentValue(line: Array(document.utf8))), as: UTF8.self)
        }
        let links = #"{"any":{"link":["N",{"int":"8"}]},"next":{"link":["N",{"int":"9007199254740993"}]}}"#
        #expect(try line("7.0", "8e0", "9007199254740993.0") == #"["N",{"int":"7"},\#(links)]"#)
        for (field, values) in [
            "_id": ("1e19", "8", "9"), "any": ("7", "1e-400", "9"), "next": ("7", "8", "1.5"),
        ] {
            let error = #expect(throws: LineError.self) { try line(values.0, values.1, values.2) }
            #expect(error?.field == field)
        }
    }

    @Test func fieldsThatTheSchemaDoesNotHaveAreCounted() throws {
        var reader = try DocumentReader(try Self.classes(), className: "Task", ignoring: ["_partition"])
        for _ in 0..<2 {
            let document = #"{"_id":{"$oid":"5f0c1e2d3b4a59687766aabb"},"__v":0,"_partition":"a","place":{"zip":1}}"#
            _ = try reader.line(DocumentValue(line: Array(document.utf8)))
        }
        #expect(reader.tally.unknown == ["__v": 2, "place.zip": 2])
        #expect(reader.tally.missing == ["done": 2])
        #expect(throws: LineError.self) { try DocumentReader(try Self.classes(), className: "Place") }
        #expect(throws: LineError.self) { try reader.line(.document([:])) }
    }

    /// - Returns: what is found, as in `aSchemaIsFoundThatAllDocumentsFitInto`, and the lines of the documents.
    private static func inferred(_ documents: [String]) throws -> (schema: [String], lines: [String], DocumentTally) {
        let values = try documents.map { try DocumentValue(line: Array($0.utf8)) }
        var inference = SchemaInference(className: "R")
        for value in values { inference.add(value) }
        let classes = try inference.classes()
        var reader = try DocumentReader(classes, className: "R")
        let lines = try values.map { String(decoding: try reader.line($0), as: UTF8.self) }
        let schema = classes.flatMap { declared in
            declared.properties.map { "\($0.name): \($0.type) \($0.collection)" }
        }
        return (schema, lines, reader.tally)
    }

    @Test func referencesAreLinksWhereASchemaIsFound() throws {
        let other = #"{"$ref":"Other","$id":7}"#, link = #"{"link":["Other",{"int":"7"}]}"#
        let found = try Self.inferred([
            #"{"_id":1,"a":\#(other),"b":[\#(other)],"c":{"d":\#(other)},"e":\#(other),"f":[1,\#(other)],"#
                + #""g":{"$ref":"Other","$id":7,"$db":"x"}}"#,
            #"{"_id":2,"a":\#(other),"b":[],"c":{"d":null},"e":5,"f":[],"g":null}"#,
        ])
        #expect(
            found.schema == [
                "a: Null Single", "b: Null List", "c: Link Single", "e: Null Single", "f: Null List", "g: Null Single",
                "d: Null Single",
            ])
        #expect(
            found.lines[0]
                == #"["R",{"int":"1"},{"a":\#(link),"b":{"list":[\#(link)]},"c":{"d":\#(link)},"e":\#(link),"#
                + #""f":{"list":[{"int":"1"},\#(link)]},"g":\#(link)}]"#)
        #expect(found.2.unknown == ["g.$db": 1])
    }

    /// Names are bytes: a field is not one whose letters only look the same.
    @Test func aFieldIsThatOfItsBytes() throws {
        let property = ExportedClass.Property(name: "\u{e9}", type: .int, isNullable: true)
        let key = ExportedClass.Property(name: "_id", type: .int, isNullable: false)
        var reader = try DocumentReader(
            [ExportedClass(name: "N", kind: .topLevel, key: key, properties: [property])], className: "N")
        let line = try reader.line(DocumentValue(line: Array(#"{"_id":1,"e\u0301":2}"#.utf8)))
        #expect(String(decoding: line, as: UTF8.self) == #"["N",{"int":"1"},{}]"#)
        #expect(reader.tally.unknown.values.reduce(0, +) == 1)
        let both = try Self.inferred([#"{"_id":1,"\u00e9":1,"e\u0301":true}"#])
        #expect(both.schema.count == 2 && both.lines[0].contains("true") && both.lines[0].contains(#"{"int":"1"}"#))
    }

    /// Two places can come to one name, and a name has at most so many bytes.
    @Test func embeddedClassesHaveNamesOfTheirOwn() throws {
        let long = String(repeating: "\u{e9}", count: 31)
        let found = try Self.inferred([
            #"{"_id":1,"a":{"b":{"x":1}},"a_b":{"y":true},"\#(long)":{"\#(long)":{"z":"text"}}}"#
        ])
        #expect(
            found.lines == [
                #"["R",{"int":"1"},{"a":{"b":{"x":{"int":"1"}}},"a_b":{"y":true},"#
                    + #""\#(long)":{"\#(long)":{"z":"text"}}}]"#
            ])
        #expect(found.2.unknown.isEmpty)
    }

    @Test func whatNoFieldCanHoldIsLeftOutAndNamed() throws {
        let found = try Self.inferred([
            #"{"_id":1,"a":{"$timestamp":{"t":1,"i":1}},"b":[1,{"$minKey":1}],"c":{"x":{"$code":"f"},"y":1},"d":1}"#,
            #"{"_id":2,"a":"x","b":[2],"c":{"x":"x","y":2},"d":{"$undefined":true}}"#,
        ])
        #expect(found.lines[0] == #"["R",{"int":"1"},{"c":{"y":{"int":"1"}},"d":{"int":"1"}}]"#)
        #expect(
            found.lines[1]
                == #"["R",{"int":"2"},{"a":"x","b":{"list":[{"int":"2"}]},"c":{"x":"x","y":{"int":"2"}},"d":null}]"#)
        #expect(found.2.unsupported == ["a: $timestamp": 1, "b: $minKey": 1, "c.x: $code": 1])
        #expect(throws: LineError.self) { try Self.inferred([#"{"_id":{"$minKey":1}}"#]) }
    }

    @Test func noValueIsChangedByTheSchemaThatIsFound() throws {
        let found = try Self.inferred([
            #"{"_id":1,"a":9007199254740993,"b":1,"c":null,"d":null,"e":[9007199254740993,0.5],"f":{}}"#,
            #"{"_id":2,"a":1.5,"b":1.5,"c":{},"d":[1],"e":[],"f":{}}"#,
        ])
        #expect(
            found.schema == [
                "a: Null Single", "b: Double Single", "c: Null Single", "d: Null Single", "e: Null List",
                "f: Null Dictionary",
            ])
        #expect(found.lines[0].contains(#""a":{"int":"9007199254740993"}"#) && found.lines[0].contains(#""c":null"#))
        #expect(found.lines[1].contains(#""c":{"dict":{}},"d":{"list":[{"int":"1"}]}"#))
    }

    @Test func aSchemaIsFoundThatAllDocumentsFitInto() throws {
        let documents = [
            #"{"_id":1,"a":"x","b":1,"c":{"d":true},"e":[{"f":1}],"g":[1],"h":1,"i":{},"j":[]}"#,
            #"{"_id":2,"a":null,"b":2.5,"c":{"d":false,"k":{"$oid":"5f0c1e2d3b4a59687766aabc"}},"h":"x","e":[]}"#,
        ].map { try? DocumentValue(line: Array($0.utf8)) }
        var inference = SchemaInference(className: "Thing")
        for document in documents { inference.add(try #require(document)) }
        let classes = try inference.classes()
        let text = classes.flatMap { declared in
            declared.properties.map { property in
                "\(declared.name).\(property.name): \(property.type) \(property.isNullable) \(property.collection)"
                    + (property.target.map { " \($0)" } ?? "")
            }
        }
        #expect(
            text == [
                "Thing.a: String true Single", "Thing.b: Double false Single", "Thing.c: Link true Single Thing_c",
                "Thing.e: Link false List Thing_e", "Thing.g: Int false List", "Thing.h: Null true Single",
                "Thing.i: Null true Dictionary", "Thing.j: Null true List", "Thing_c.d: Bool false Single",
                "Thing_c.k: ObjectId true Single", "Thing_e.f: Int false Single",
            ])
        var reader = try DocumentReader(classes, className: "Thing")
        for document in documents { _ = try reader.line(try #require(document)) }
        #expect(reader.tally.unknown.isEmpty)
        #expect(inference.report.contains("  a: String 1, null 1"))
        inference.add(.document(["_id": .scalar("a")]))
        #expect(throws: LineError.self) { try inference.classes() }
    }
}
