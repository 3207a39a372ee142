"""`export har`: model calls as an HTTP archive, HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec/)."""
