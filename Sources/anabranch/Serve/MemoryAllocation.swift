import CMalloc

/// How the process of the server gets memory from the system and gives it back. It is for the program to say, not for
/// the libraries: another program that embeds the server has its own allocator, or its own reasons.
enum MemoryAllocation {
    /// A block of so many bytes or more is memory of its own, which goes back to the system when it is freed.
    static let ownBlockBytesMin = 128 << 10

    /// With what glibc does by itself, the memory of the process grows under catch-ups of some megabytes, although less
    /// and less of it is in use: after the first large block that is freed, it takes all those that are smaller from
    /// heaps, whose free memory is never at the end, where it could be given back.
    static func giveBackWhatIsFree() {
        #if canImport(Glibc)
        mallopt(M_MMAP_THRESHOLD, Int32(ownBlockBytesMin))
        mallopt(M_TRIM_THRESHOLD, Int32(ownBlockBytesMin))
        #endif
    }
}
