import AnabranchBridge
import AnabranchClient
import Testing

/// Triggers of the application that do not let rows be as their objects (`Spec/Bridge.md`, section 5).
@Suite(.timeLimit(.minutes(30))) struct BridgeTriggerTests {
    @Test func whatTriggersIgnoreWaits() async throws {
        let schema = """
            CREATE TABLE note (id bigint PRIMARY KEY, n int); INSERT INTO note VALUES (1, 1);
            CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER no BEFORE INSERT OR DELETE ON note FOR EACH ROW EXECUTE FUNCTION no()
            """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                if let object = try transaction.object("note", key: 1) { try transaction.delete(object) }
                try transaction.create("note", key: 2, ["n": 2])
            }
            #expect(try await bridge.synchronize().waiting == 2)
            #expect(
                try world.database.status().waiting.map(\.reason) == [
                    "a trigger of the application does not let it be deleted",
                    "a trigger of the application does not let it in",
                ])
            // They are written when the trigger is gone, and something has changed.
            try world.app.run("DROP TRIGGER no ON note")
            try await device.change { _ = try $0.create("note", key: 3, ["n": 3]) }
            #expect(try await bridge.synchronize().waiting == 0)
            #expect(try world.app.rows("SELECT id, n FROM note ORDER BY id") == ["2|2", "3|3"])
        }
    }
}
