import Testing

/// The promises of the image and the service, since neither is run by the tests.
@Suite struct DeployTests {
    private struct Instruction {
        let keyword: String
        let words: String
    }

    /// The instructions of the Dockerfile, each with the lines that continue it.
    private static func instructions() throws -> [Instruction] {
        var instructions: [Instruction] = [], pending = ""
        for line in try TextFile("Dockerfile").lines where !line.hasPrefix("#") && !line.isEmpty {
            pending += line.drop { $0 == " " }
            guard !pending.hasSuffix("\\") else {
                pending.removeLast()
                continue
            }
            let parts = pending.split(separator: " ", maxSplits: 1).map(String.init)
            instructions.append(Instruction(keyword: parts[0], words: parts.count > 1 ? parts[1] : ""))
            pending = ""
        }
        #expect(pending.isEmpty, "the last instruction goes on")
        return instructions
    }

    @Test func theImageRunsTheServerAndNothingElseAndNotAsRoot() throws {
        let instructions = try Self.instructions()
        let known: Set = [
            "FROM", "RUN", "WORKDIR", "COPY", "ARG", "LABEL", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL",
            "HEALTHCHECK", "ENTRYPOINT", "CMD",
        ]
        #expect(instructions.allSatisfy { known.contains($0.keyword) })
        let stages = instructions.filter { $0.keyword == "FROM" }.map(\.words)
        #expect(stages.count == 2 && stages[0].hasSuffix(" AS build"), "built in one stage, run in another")
        #expect(stages.allSatisfy { $0.contains(/^[a-z]+:[a-z0-9.-]*[0-9a-z]( AS build)?$/) && !$0.contains("latest") })

        let image = Array(instructions.drop { $0.words != stages.last })
        func words(_ keyword: String) -> [String] { image.filter { $0.keyword == keyword }.map(\.words) }
        #expect(words("USER").count == 1 && words("USER").allSatisfy { $0.contains(/^[1-9][0-9]{3,}:[1-9][0-9]{3,}$/) })
        #expect(words("RUN").allSatisfy { $0.hasSuffix("rm -rf /var/lib/apt/lists/*") }, "no lists of packages stay")
        #expect(words("HEALTHCHECK").count == 1)
        #expect(words("HEALTHCHECK").allSatisfy { $0.hasSuffix(#"CMD ["anabranch", "admin", "health"]"#) })
        #expect(words("ENTRYPOINT") == [#"["anabranch"]"#])
        #expect(words("CMD").allSatisfy { $0.hasPrefix(#"["serve","#) && !$0.contains("--insecure") })
        #expect(words("LABEL").contains { $0.contains(#"licenses="Apache-2.0""#) })
        let after = image.drop { $0.keyword != "USER" }
        #expect(!after.contains { ["RUN", "COPY"].contains($0.keyword) }, "nothing is changed as the user who serves")
    }

    /// The files that a build needs, and no others, go to the engine: no data, no keys.
    @Test func theImageIsMadeFromTheSourcesAlone() throws {
        let rules = try TextFile(".dockerignore").lines
        #expect(rules.first == "*")
        for rule in rules where rule.hasPrefix("!") { #expect(Repository.exists(String(rule.dropFirst()))) }
    }

    /// To listen below port 1024 the service gets one capability, and nothing else.
    @Test func aLowPortNeedsOneCapability() throws {
        let lines = try TextFile("scripts/deploy/low-port.conf").lines.filter { !$0.hasPrefix("#") && !$0.isEmpty }
        #expect(
            lines == [
                "[Service]", "AmbientCapabilities=CAP_NET_BIND_SERVICE", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
                "PrivateUsers=no",
            ])
    }

    @Test func theServiceIsConfined() throws {
        var section = "", settings: [String: [String]] = [:]
        for line in try TextFile("scripts/deploy/anabranch.service").lines where !line.hasPrefix("#") && !line.isEmpty {
            if let match = line.wholeMatch(of: /\[([A-Z][a-z]+)\]/) {
                section = String(match.output.1)
                continue
            }
            let match = try #require(line.wholeMatch(of: /([A-Z][A-Za-z]+)=(.*)/), "\(line)")
            settings["\(section).\(match.output.1)", default: []].append(String(match.output.2))
        }
        #expect(Set(settings.keys.map { $0.prefix { $0 != "." } }) == ["Unit", "Service", "Install"])
        for (name, values) in settings where name != "Service.SystemCallFilter" {
            #expect(values.count == 1, "\(name) is there twice")
        }
        for name in [
            "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateTmp",
            "PrivateUsers", "ProtectClock", "ProtectControlGroups", "ProtectHome", "ProtectHostname",
            "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RemoveIPC", "RestrictNamespaces",
            "RestrictRealtime", "RestrictSUIDSGID",
        ] { #expect(settings["Service.\(name)"] == ["yes"], "\(name)") }
        #expect(settings["Service.ProtectSystem"] == ["strict"])
        #expect(settings["Service.CapabilityBoundingSet"] == [""])
        #expect(settings["Service.UMask"] == ["0077"] && settings["Service.StateDirectoryMode"] == ["0700"])
        #expect(settings["Service.User"]?.contains("root") == false)
        let start = try #require(settings["Service.ExecStart"]?.first)
        #expect(start.hasSuffix("anabranch serve --config /etc/anabranch/anabranch.yaml"))
        #expect(
            settings["Service.Environment"] == [
                "ANABRANCH_DATA=/var/lib/\(settings["Service.StateDirectory"]?[0] ?? "")"
            ])
    }
}
