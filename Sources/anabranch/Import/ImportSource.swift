import Foundation

/// The lines of a file, read one after the other.
struct ImportSource {
    private static let pieceBytes = 1 << 20

    private let file: FileHandle
    private let name: String
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false
    /// How long the file is; nil if it does not say.
    let byteCount: Int?
    /// What was handed out.
    private(set) var bytesRead = 0
    /// The number of the line that was handed out last, from 1.
    private(set) var lineNumber = 0

    /// - Parameter path: `-` is the standard input.
    init(_ path: String) throws {
        name = path
        guard path != "-" else {
            (file, byteCount) = (FileHandle.standardInput, nil)
            return
        }
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw InputError(description: "\(path): \(String(cString: strerror(errno)))")
        }
        self.file = file
        // A pipe has no end that could be looked for, and a device has none.
        let end = lseek(file.fileDescriptor, 0, SEEK_END)
        byteCount = end > 0 && lseek(file.fileDescriptor, 0, SEEK_SET) == 0 ? Int(end) : nil
    }

    /// The next line that is not empty, without its end; nil at the end of the file.
    mutating func next() throws -> [UInt8]? {
        while let line = try nextLine() {
            if line.contains(where: { $0 > 0x20 }) { return line }
        }
        return nil
    }

    private mutating func nextLine() throws -> [UInt8]? {
        var searched = position
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { position = end + 1 }
                return take(through: end, bytes: end + 1 - position)
            }
            if isAtEnd {
                defer { position = buffer.count }
                return position < buffer.count ? take(through: buffer.count, bytes: buffer.count - position) : nil
            }
            buffer.removeFirst(position)
            position = 0
            searched = buffer.count
            let piece = try read()
            isAtEnd = piece.isEmpty
            buffer += piece
        }
    }

    /// What is there, without waiting for more; nothing at the end.
    private func read() throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: Self.pieceBytes) { bytes, count in
            let found = Foundation.read(file.fileDescriptor, bytes.baseAddress, bytes.count)
            guard found >= 0 else {
                throw InputError(description: "\(name): \(String(cString: strerror(errno)))")
            }
            count = found
        }
    }

    private mutating func take(through end: Int, bytes: Int) -> [UInt8] {
        lineNumber += 1
        bytesRead += bytes
        var line = buffer[position..<end]
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        return Array(line)
    }
}
