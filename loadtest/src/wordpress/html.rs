//! The images that a browser loads for a page.

/// Returns the addresses of a page's images in order, as a browser chooses them in a window of `width` pixels, on a screen
/// with one dot a pixel.
#[must_use]
pub fn images(html: &str, width: u32) -> Vec<String> {
    let tags = html.split("<img ").skip(1);
    tags.filter_map(|rest| chosen(&rest[..rest.find('>')?], width))
        .collect()
}

/// Chooses the smallest candidate of `srcset` that fills the image's place, else the largest; without candidates `src`.
fn chosen(tag: &str, width: u32) -> Option<String> {
    let sizes = attribute(tag, "sizes");
    let place = sizes.and_then(|sizes| place(&sizes, width));
    let place = place.unwrap_or(width);
    let candidates = attribute(tag, "srcset");
    let candidates = candidates.as_deref().unwrap_or_default().split(", ");
    let mut candidates: Vec<_> = candidates.filter_map(candidate).collect();
    candidates.sort_unstable();
    let fills = candidates.iter().find(|(width, _)| *width >= place);
    match fills.or(candidates.last()) {
        Some((_, address)) => Some((*address).to_owned()),
        None => attribute(tag, "src"),
    }
}

/// Returns a candidate's width and address.
fn candidate(text: &str) -> Option<(u32, &str)> {
    let (address, width) = text.trim().rsplit_once(' ')?;
    Some((width.strip_suffix('w')?.parse().ok()?, address))
}

/// Returns the width of an image's place by its `sizes`: the first length whose condition holds.
fn place(sizes: &str, window: u32) -> Option<u32> {
    sizes.split(',').find_map(|part| {
        let part = part.trim();
        let Some(condition) = part.strip_prefix("(max-width:") else {
            return length(part, window);
        };
        let (most, then) = condition.split_once(')')?;
        let holds = window <= length(most, window)?;
        holds.then(|| length(then, window))?
    })
}

/// Returns a length in pixels.
fn length(text: &str, window: u32) -> Option<u32> {
    let text = text.trim();
    match text.strip_suffix("vw") {
        Some(share) => Some(window * share.parse::<u32>().ok()? / 100),
        None => text.strip_suffix("px")?.parse().ok(),
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=\"");
    let tag = format!(" {tag}");
    let value = &tag[tag.find(&start)? + start.len()..];
    let value = &value[..value.find('"')?];
    Some(value.replace("&#038;", "&").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<h1>Post</h1><figure><img decoding="async" width="1600" height="1200"
        src="http://a/u/b.jpg" alt="" class="wp-image-7" srcset="http://a/u/b.jpg 1600w, http://a/u/b-300x225.jpg 300w, http://a/u/b-768x576.jpg 768w" sizes="(max-width: 1600px) 100vw, 1600px" /></figure>
        <p><img loading="lazy" src="http://a/u/icon.png?a=1&#038;b=2" alt=""></p>"#;

    fn first(width: u32) -> String {
        images(PAGE, width).swap_remove(0)
    }

    #[test]
    fn a_browser_takes_the_smallest_size_that_fills_its_place() {
        assert_eq!(first(1920), "http://a/u/b.jpg");
        assert_eq!(first(1600), "http://a/u/b.jpg");
        assert_eq!(first(768), "http://a/u/b-768x576.jpg");
        assert_eq!(first(360), "http://a/u/b-768x576.jpg");
        assert_eq!(first(300), "http://a/u/b-300x225.jpg");
    }

    #[test]
    fn the_largest_size_is_taken_if_none_fills_the_place() {
        let page = PAGE.replace("100vw, 1600px", "100vw, 1900px");
        assert_eq!(images(&page, 1920)[0], "http://a/u/b.jpg");
        let page = PAGE.replace("sizes=", "data-sizes=");
        assert_eq!(images(&page, 700)[0], "http://a/u/b-768x576.jpg");
    }

    #[test]
    fn an_image_without_sizes_is_its_source() {
        let found = images(PAGE, 1920);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], "http://a/u/icon.png?a=1&b=2");
    }
}
