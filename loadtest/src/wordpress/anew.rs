//! All sizes of all photos regenerated, as by `wp media regenerate`.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::Site;

impl Site {
    /// Puts `count` copies of a photo into the media library, without sizes; returns their folder.
    ///
    /// # Errors
    /// If PHP fails.
    pub fn fill(&self, photo: &Path, count: u64) -> Result<String> {
        let source = self.places.dir.join("source.jpg");
        std::fs::copy(photo, &source)?;
        let folder = self.php(&format!(
            "$up = wp_upload_dir();\nfor ($n = 0; $n < {count}; $n++) {{\n\
             $file = \"$up[path]/again-$n.jpg\";\ncopy('{}', $file) or die('copy');\n\
             wp_insert_attachment(['post_mime_type' => 'image/jpeg', 'post_title' => \"again $n\", \
             'post_status' => 'inherit'], $file) or die('insert');\n}}\necho $up['path'];",
            source.display()
        ))?;
        ensure!(Path::new(&folder).is_dir(), "not filled: {folder}");
        Ok(folder)
    }

    /// Makes at least `sizes` sizes of each of these copies; `quality` (1 to 100) replaces WordPress' own.
    ///
    /// # Errors
    /// If not all of them are made.
    pub fn regenerate(&self, count: u64, sizes: u64, quality: Option<u8>) -> Result<()> {
        let quality = quality.map(|quality| {
            format!("add_filter('wp_editor_set_quality', function () {{ return {quality}; }});\n")
        });
        let said = self.php(&format!(
            "{}$done = 0;\nforeach (get_posts(['post_type' => 'attachment', 'numberposts' => -1, \
             'fields' => 'ids', 's' => 'again']) as $id) {{\n\
             $made = wp_generate_attachment_metadata($id, get_attached_file($id));\n\
             count($made['sizes']) >= {sizes} or die(\"$id has few sizes\");\n\
             wp_update_attachment_metadata($id, $made);\n$done++;\n}}\necho $done;",
            quality.unwrap_or_default()
        ))?;
        let done: u64 = said.parse().with_context(|| said.clone())?;
        ensure!(done == count, "{done} photos were made anew");
        Ok(())
    }
}
