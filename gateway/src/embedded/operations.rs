//! The supported S3 operations, and the implementation of each.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput, PutObjectInput,
    PutObjectOutput, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3Request, S3Response, S3Result};

use super::bucket::Bucket;

/// A [`Bucket`] that the service and its owner share.
#[derive(Debug)]
pub(super) struct BucketService(pub(super) Arc<Bucket>);

/// Carries out a change to its end, also where its client disconnects: s3s-fs changes the bytes, the headers and the ETag
/// of an object one after the other, and forgets an upload before it joins its parts.
async fn finish<T: Send + 'static>(
    change: impl Future<Output = S3Result<T>> + Send + 'static,
) -> S3Result<T> {
    tokio::spawn(change)
        .await
        .map_err(S3Error::internal_error)?
}

/// Implements [`S3`] by passing each operation on to the bucket or to s3s-fs.
macro_rules! operations {
    ($($name:ident($input:ident) -> $output:ident: $this:ident => $target:expr;)*) => {
        impl S3 for BucketService {
            $(fn $name<'s, 'f>(
                &'s self,
                request: S3Request<$input>,
            ) -> BoxFuture<'f, S3Result<S3Response<$output>>>
            where
                's: 'f,
                Self: 'f,
            {
                let $this = &self.0;
                Box::pin($target(request))
            })*
        }
    };
}

operations! {
    get_object(GetObjectInput) -> GetObjectOutput: b => |r| b.get(r);
    head_object(HeadObjectInput) -> HeadObjectOutput: b => |r| b.head(r);
    put_object(PutObjectInput) -> PutObjectOutput: b => |r| finish(b.clone().put(r));
    delete_object(DeleteObjectInput) -> DeleteObjectOutput: b => |r| finish(b.clone().delete(r));
    copy_object(CopyObjectInput) -> CopyObjectOutput: b => |r| finish(b.clone().copy(r));
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput:
        b => |r| finish(b.clone().complete(r));
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput:
        b => |r| b.create(r);
    upload_part(UploadPartInput) -> UploadPartOutput: b => |r| b.part(r);
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput: b => |r| b.copy_part(r);
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput:
        b => |r| b.abort(r);
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput:
        b => |r| b.list_uploads(r);
    list_parts(ListPartsInput) -> ListPartsOutput: b => |r| b.files().list_parts(r);
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output: b => |r| b.list(r);
    head_bucket(HeadBucketInput) -> HeadBucketOutput: b => |r| b.files().head_bucket(r);
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput:
        b => |r| b.files().get_bucket_location(r);
}
