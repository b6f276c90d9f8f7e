//! The S3 client over real sockets.

#[path = "../support/fake_s3.rs"]
mod fake_s3;
mod live;
mod s3;
