/// The classes of a file space, and their properties (`Spec/Files.md`, section 2).
package enum SpaceClasses {
    package static let file = "File"
    package static let folder = "Folder"
    package static let name = "name"
    package static let parent = "parent"
    package static let moved = "moved"
    package static let manifest = "manifest"
    package static let trashed = "trashed"
}
