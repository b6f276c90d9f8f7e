//! The translation of a listing's answer to a page.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{EncodingType, Object};
use percent_encoding::percent_decode_str;

use crate::{ListedObject, Listing, OriginError, PageStart};
use tidegate_plan::{ETag, Timestamp};

/// Reads a page.
pub(super) fn read(output: ListObjectsV2Output) -> Result<Listing, OriginError> {
    let encoded = output.encoding_type == Some(EncodingType::Url);
    let text = |text: Option<String>| {
        let text = text.ok_or(OriginError::BadAnswer("a listing with a nameless key"))?;
        if encoded { decode(&text) } else { Ok(text) }
    };
    let truncated = output.is_truncated == Some(true);
    let next = match output.next_continuation_token {
        Some(token) if truncated => Some(PageStart::Token(token)),
        None if truncated => {
            return Err(OriginError::BadAnswer(
                "a listing that cannot be gone on with",
            ));
        }
        _ => None,
    };
    let objects = output.contents.unwrap_or_default().into_iter();
    let folders = output.common_prefixes.unwrap_or_default().into_iter();
    Ok(Listing {
        objects: objects
            .map(|object| listed(text(object.key.clone())?, &object))
            .collect::<Result<_, _>>()?,
        folders: folders
            .map(|folder| text(folder.prefix))
            .collect::<Result<_, _>>()?,
        next,
    })
}

fn listed(key: String, object: &Object) -> Result<ListedObject, OriginError> {
    let size = object.size.and_then(|size| u64::try_from(size).ok());
    let modified = object.last_modified;
    Ok(ListedObject {
        key,
        size: size.ok_or(OriginError::BadAnswer("a listing without sizes"))?,
        etag: object.e_tag.as_deref().and_then(ETag::parse),
        last_modified: modified.map(|time| Timestamp::from_secs(time.secs())),
    })
}

/// Decodes text of `encoding-type=url`: as in a form, `+` is a space (S3 API reference,
/// `ListObjectsV2`).
fn decode(text: &str) -> Result<String, OriginError> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| OriginError::BadAnswer("a key that is not valid text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_where_the_store_encoded_them() {
        let object = Object::builder().key("a%2Bb+c%00d").size(1).build();
        let page = |encoding| {
            let output = ListObjectsV2Output::builder().contents(object.clone());
            let read = read(output.set_encoding_type(encoding).build()).expect("a page");
            read.objects[0].key.clone()
        };
        assert_eq!(page(Some(EncodingType::Url)), "a+b c\0d");
        assert_eq!(page(None), "a%2Bb+c%00d");
    }

    #[test]
    fn a_page_that_is_cut_off_names_the_next_one() {
        let cut = ListObjectsV2Output::builder().is_truncated(true);
        assert!(read(cut.clone().build()).is_err());
        let page = read(cut.next_continuation_token("t").build()).expect("a page");
        assert_eq!(page.next, Some(PageStart::Token("t".to_owned())));
    }
}
