//! Posts with images.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Browser, Site};

/// Published posts.
#[derive(Debug, Clone, Default)]
pub struct PublishedPosts {
    /// Their numbers.
    pub posts: Vec<u64>,
    /// The number of files that were written below uploads for them.
    pub files: u64,
}

/// PHP that publishes a post again, with copies of all its images in all their sizes.
const AGAIN: &str = r#"
    wp_set_current_user(1);
    preg_match_all('/wp-image-(\d+)/', get_post($post)->post_content, $found);
    $files = 0;
    for ($n = 1; $n <= $count; $n++) {
        $content = '';
        foreach ($found[1] as $id) {
            $from = get_attached_file($id);
            $at = dirname($from);
            $named = function ($name) use ($at, $post, $n, &$files) {
                copy("$at/$name", "$at/$post-$n-$name") or die("copy $name");
                $files++;
                return "$post-$n-$name";
            };
            $meta = wp_get_attachment_metadata($id);
            $name = $named(basename($from));
            $meta['file'] = dirname($meta['file']) . "/$name";
            foreach ($meta['sizes'] as &$size) {
                $size['file'] = $named($size['file']);
            }
            unset($size);
            $new = wp_insert_attachment(['post_mime_type' => get_post_mime_type($id), 'post_title' => $name,
                'post_status' => 'inherit'], "$at/$name") or die("insert $name");
            wp_update_attachment_metadata($new, $meta);
            $content .= sprintf($block, $new, wp_get_attachment_url($new), $new);
        }
        echo wp_insert_post(['post_title' => "Post $post, $n", 'post_status' => 'publish',
            'post_content' => wp_slash($content)]), "\n";
    }
    echo $files;
"#;

/// An image in a post, as the editor writes it: its number, address, and number again.
const BLOCK: &str = "<!-- wp:image {\"id\":%d,\"sizeSlug\":\"full\",\"linkDestination\":\"none\"} -->\n\
     <figure class=\"wp-block-image size-full\"><img src=\"%s\" alt=\"\" class=\"wp-image-%d\"/></figure>\n\
     <!-- /wp:image -->\n";

impl Browser {
    /// Uploads images over the REST API, and publishes a post that shows them.
    ///
    /// # Errors
    /// If WordPress refuses one.
    pub fn publish(&self, title: &str, images: &[PathBuf]) -> Result<PublishedPosts> {
        let (mut content, mut files) = (String::new(), 0);
        for image in images {
            let suffix = image.extension().context("a suffix")?.to_string_lossy();
            let kind = match &*suffix {
                "jpg" => "image/jpeg".to_owned(),
                other => format!("image/{other}"),
            };
            let media = self.upload_rest(image, &kind)?;
            let id = media.id.to_string();
            let block = BLOCK.replace("%d", &id).replace("%s", &media.url);
            content += &block;
            files += media.paths.len() as u64;
        }
        let post = json!({ "title": title, "content": content, "status": "publish" });
        let said = self.rest("POST", "/wp/v2/posts", Some(post))?;
        Ok(PublishedPosts {
            posts: vec![said["id"].as_u64().context("a number")?],
            files,
        })
    }
}

impl Site {
    /// Publishes a post `count` times more. Each has images of its own: copies of all files, made by PHP.
    ///
    /// # Errors
    /// If PHP fails.
    pub fn publish_again(&self, post: u64, count: u64) -> Result<PublishedPosts> {
        let block = BLOCK.replace('\n', "\\n").replace('"', "\\\"");
        let said = self.php(&format!(
            "$post = {post};\n$count = {count};\n$block = \"{block}\";\n{AGAIN}"
        ))?;
        let numbers = said
            .lines()
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>();
        let mut posts = numbers.with_context(|| said.clone())?;
        let files = posts.pop().context("no number of files")?;
        ensure!(posts.len() as u64 == count, "published: {said}");
        Ok(PublishedPosts { posts, files })
    }
}
