import AnabranchCore
import AnabranchProtocol
import AnabranchTesting

/// A message that can be read is written so that it reads the same, in each mode.
func fuzzClientMessage(_ bytes: [UInt8]) -> String? {
    for mode in SyncMode.allCases {
        let codec = ClientMessageCodec(mode: mode)
        guard let message = try? codec.decode(bytes) else { continue }
        guard let again = try? codec.decode(codec.encode(message).bytes) else {
            return "written, it cannot be read, in mode \(mode): \(message)"
        }
        guard again.isSame(as: message) else { return "written, it reads \(again), not \(message), in mode \(mode)" }
    }
    return nil
}

/// The same for a server's message, in the versions that have a grammar of their own. A client takes it or refuses it.
func fuzzServerMessage(_ bytes: [UInt8]) -> String? {
    for mode in SyncMode.allCases {
        for number in mode == .flexible ? [5, 11, 13, 14] : [14] {
            let version = ProtocolVersion(number), codec = ServerMessageCodec(mode: mode, version: version)
            var random = SeededRandom(seed: 1)
            var connection = ClientConnection(version, mode, openedAt: 0, using: &random)
            _ = connection.encode(.bind(session: 1, BindRequest(partition: [0x78], needsFileIdent: false)))
            let event = try? connection.receive(bytes, at: 1, using: &random)
            guard let message = try? codec.decode(bytes) else {
                if event != nil { return "it cannot be read, and a client takes it" }
                continue
            }
            guard let again = try? codec.decode(codec.encode(message).bytes) else {
                return "written, it cannot be read, in mode \(mode), version \(number): \(message)"
            }
            guard again.isSame(as: message) else {
                return "written, it reads \(again), not \(message), in mode \(mode), version \(number)"
            }
        }
    }
    return nil
}

extension ClientMessage {
    /// The entries of an UPLOAD may be written in another way.
    fileprivate func isSame(as other: ClientMessage) -> Bool {
        guard case .upload(let session, let upload) = self, case .upload(session, let otherUpload) = other else {
            return self == other
        }
        return upload.upload == otherUpload.upload
    }
}

extension ServerMessage {
    /// The entries of a DOWNLOAD may be written in another way.
    fileprivate func isSame(as other: ServerMessage) -> Bool {
        guard case .download(let session, let message) = self, case .download(session, let otherMessage) = other else {
            return self == other
        }
        return message.download == otherMessage.download && message.batch.isSame(as: otherMessage.batch)
    }
}

extension QueryBatch? {
    /// Estimates are written in steps.
    fileprivate func isSame(as other: QueryBatch?) -> Bool {
        guard let batch = self, let other else { return self == other }
        return batch.version == other.version && batch.state == other.state
            && abs(batch.estimate - other.estimate) <= 0.000_1
    }
}
