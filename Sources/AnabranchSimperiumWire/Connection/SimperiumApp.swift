import AnabranchCore

/// The buckets of an app that this wire serves.
package struct SimperiumApp: Equatable, Sendable {
    /// The rules of buckets by their names.
    package var buckets: [String: BucketSettings] = [:]
    /// The rules of other buckets; nil if there are none.
    package var otherBuckets: BucketSettings? = BucketSettings()
    /// The API keys of the app, one of which is needed to log in; none if all will do.
    package var apiKeys = SecretList()
    /// The tokens of administrators, who act for any user by HTTP.
    package var administrators = SecretList()

    package init() {}

    /// True if a text can be the name of a bucket.
    package static func isBucketName(_ text: String) -> Bool { BucketName.isValid(text) }

    /// The rules of a bucket; nil if it is not served.
    func settings(of bucket: String) -> BucketSettings? {
        bucket == "__options__" ? nil : buckets[exactly: bucket] ?? otherBuckets
    }
}
