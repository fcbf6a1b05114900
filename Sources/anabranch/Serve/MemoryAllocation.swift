import CMalloc

/// The way in which the server's process gets memory from the system and gives it back. This is up to the program, not
/// to the libraries: another program that embeds the server has its own allocator, or its own reasons.
enum MemoryAllocation {
    /// The size, in bytes, from which on a block is memory of its own, which goes back to the system when it is freed.
    static let ownBlockBytesMin = 128 << 10

    /// Makes the allocator return freed memory. As glibc works by default, the memory of the process grows under
    /// catch-ups of some megabytes, although less and less of it is in use: after the first large block is freed, it
    /// takes all smaller ones from heaps, whose free memory is never at the end, where it could be given back.
    static func giveBackWhatIsFree() {
        #if canImport(Glibc)
        mallopt(M_MMAP_THRESHOLD, Int32(ownBlockBytesMin))
        mallopt(M_TRIM_THRESHOLD, Int32(ownBlockBytesMin))
        #endif
    }

    /// Gives back what is free between blocks that are in use.
    static func giveBack() {
        #if canImport(Glibc)
        malloc_trim(0)
        #endif
    }
}
