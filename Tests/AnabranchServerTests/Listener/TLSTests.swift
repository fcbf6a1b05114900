import Foundation
import Metrics
import NIOCore
import NIOPosix
import NIOSSL
import Testing

@testable import AnabranchServer

/// TLS with certificates that change while the server runs.
@Suite struct TLSTests {
    @Test(arguments: [(TLSVersion.tlsv12, TLSVersion.tlsv12), (.tlsv13, .tlsv13)])
    func aClientGetsInWithCurrentVersions(from: TLSVersion, to: TLSVersion) async throws {
        try await Self.withTLS { server, _ async throws in
            let answer = try await Self.request(server, from: from, to: to)
            #expect(answer.text.hasPrefix("HTTP/1.1 404"))
            #expect(try answer.isFrom(Self.certificateOne))
        }
    }

    @Test func oldVersionsAreRefused() async throws {
        try await Self.withTLS { server, _ async throws in
            await #expect(throws: (any Error).self) { try await Self.request(server, from: .tlsv1, to: .tlsv11) }
        }
    }

    @Test func withoutTLSNobodyGetsInAndItIsCounted() async throws {
        let metrics = CountingMetrics()
        try await Self.withTLS(metrics: metrics) { server, _ async throws in
            let client = try await WebSocketClient(port: server.port)
            try await client.write(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
            #expect(await client.isAtEnd())
            #expect(metrics.value("anabranch_tls_failures_total") == 1)
        }
    }

    @Test func aNewCertificateIsUsedForNewConnections() async throws {
        try await Self.withTLS { server, files async throws in
            #expect(try await Self.request(server).isFrom(Self.certificateOne))
            try files.write(Self.certificateTwo, Self.keyOne)
            await files.tls.refresh()
            let unchanged = try await Self.request(server)
            #expect(try unchanged.isFrom(Self.certificateOne), "a key of another certificate changes nothing")
            try files.write(Self.certificateTwo, Self.keyTwo)
            await files.tls.refresh()
            #expect(try await Self.request(server).isFrom(Self.certificateTwo))
            let new = try NIOSSLCertificate.fromPEMBytes(Array(Self.certificateTwo.utf8))
            #expect(files.tls.end == Int(new[0].notValidAfter) + 1)
        }
    }

    // MARK: Support

    private struct Files {
        let certificate: String, key: String
        var tls: TLSFiles

        init() async throws {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tls-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            certificate = folder.appendingPathComponent("certificate.pem").path
            key = folder.appendingPathComponent("key.pem").path
            try TLSTests.certificateOne.write(toFile: certificate, atomically: true, encoding: .utf8)
            try TLSTests.keyOne.write(toFile: key, atomically: true, encoding: .utf8)
            tls = try await TLSFiles(certificatePath: certificate, keyPath: key, logger: .quiet)
        }

        func write(_ certificateText: String, _ keyText: String) throws {
            try certificateText.write(toFile: certificate, atomically: true, encoding: .utf8)
            try keyText.write(toFile: key, atomically: true, encoding: .utf8)
        }
    }

    private static func withTLS(
        metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        _ body: (RunningServer, Files) async throws -> Void
    ) async throws {
        let files = try await Files()
        try await withServer(tls: files.tls, metrics: metrics) { server in try await body(server, files) }
    }

    private struct Answer: Sendable {
        let text: String
        /// The server's.
        let certificate: NIOSSLCertificate?

        func isFrom(_ certificate: String) throws -> Bool {
            try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)).first == self.certificate
        }
    }

    /// Asks for something that is not there.
    private static func request(
        _ server: RunningServer, from: TLSVersion = .tlsv12, to: TLSVersion = .tlsv13
    ) async throws -> Answer {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.minimumTLSVersion = from
        configuration.maximumTLSVersion = to
        let context = try NIOSSLContext(configuration: configuration)
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: server.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: context, serverHostname: nil))
                    return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            var parts = inbound.makeAsyncIterator()
            let text = try await parts.next().map { String(buffer: $0) } ?? ""
            return Answer(text: text, certificate: try await channel.channel.nioSSL_peerCertificate().get())
        }
    }

    /// Self-signed, for 127.0.0.1, and good for a hundred years; the keys are known to everybody.
    /// For 127.0.0.1.
    static let certificateOne = """
        -----BEGIN CERTIFICATE-----
        MIIBhDCCASqgAwIBAgIUeLBE2TaLyJvp6OUXkVR0xP3n1xgwCgYIKoZIzj0EAwIw
        DjEMMAoGA1UEAwwDb25lMCAXDTI2MTEyMTAyMDIwOFoYDzIxMjYxMDI4MDIwMjA4
        WjAOMQwwCgYDVQQDDANvbmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASW4UZs
        aXMdNFwXPVPJkE1cTvvS/sBbsTKkqz7nCZlnb7GQ2zBIVqKM1IN/XMliJavEyjRk
        Gju75FfLXULi4/fSo2QwYjAdBgNVHQ4EFgQUVpzvQzHX1iSxsiFk7bk//+eGtgsw
        HwYDVR0jBBgwFoAUVpzvQzHX1iSxsiFk7bk//+eGtgswDwYDVR0TAQH/BAUwAwEB
        /zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUCIQDcnvVSejR7M7gx
        4/IYhJvTuysbsQyOmFhFW3tC7DoEDgIgClSWyBAuFfWKW7WmxfYQm6cOaKMx64WW
        zri57RTs5y8=
        -----END CERTIFICATE-----

        """
    static let keyOne = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJ7eHdEgfx0wv7ATa
        C4mbailAYnPYfPZyOnYd0YVrNO2hRANCAASW4UZsaXMdNFwXPVPJkE1cTvvS/sBb
        sTKkqz7nCZlnb7GQ2zBIVqKM1IN/XMliJavEyjRkGju75FfLXULi4/fS
        -----END PRIVATE KEY-----

        """
    static let certificateTwo = """
        -----BEGIN CERTIFICATE-----
        MIIBhTCCASqgAwIBAgIUCrjWxVH+E3qggVGqfLNDMRPJemQwCgYIKoZIzj0EAwIw
        DjEMMAoGA1UEAwwDdHdvMCAXDTI2MTEyMTAyMDIwOVoYDzIxMjYxMDI4MDIwMjA5
        WjAOMQwwCgYDVQQDDAN0d28wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASTniBK
        +QZVPVbkWpIXkByHUBZSClFKmweeB/N+yrWSDcncSj6jN28aauRApGiqkw/p+Aj+
        DLBHOh3hITCtdOlNo2QwYjAdBgNVHQ4EFgQUnQEFfwIC6wwaYv7BJF990/ddI1kw
        HwYDVR0jBBgwFoAUnQEFfwIC6wwaYv7BJF990/ddI1kwDwYDVR0TAQH/BAUwAwEB
        /zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0kAMEYCIQDOUKJhTO4zPOxX
        BgSGuux9jMhy6fLBPrTGiMRsRXEk4wIhAPjwZ1Hkc+yrZo6luS/7qV8cj8G5CjRY
        O4rg58VYzxXF
        -----END CERTIFICATE-----

        """
    private static let keyTwo = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrclO495tkAT84ZI3
        t/7Qqmqxn04/5Y0ZS7r1MvXd5jShRANCAASTniBK+QZVPVbkWpIXkByHUBZSClFK
        mweeB/N+yrWSDcncSj6jN28aauRApGiqkw/p+Aj+DLBHOh3hITCtdOlN
        -----END PRIVATE KEY-----

        """
}
