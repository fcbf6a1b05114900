import Foundation

/// Named by the environment, since libFuzzer has the arguments.
private let target: FuzzTarget = {
    let name = ProcessInfo.processInfo.environment["FUZZ_TARGET"] ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        fatalError("FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return target
}()

/// libFuzzer calls it with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // The address sanitizer finds reads beyond the end, and memory that is used after its time.
    if let problem = target.problem(of: Array(UnsafeBufferPointer(start: start, count: count))) {
        fatalError("\(target.rawValue): \(problem)")
    }
    return 0
}
