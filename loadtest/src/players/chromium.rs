//! Chromium's elements `audio` and `video`.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use super::page::Page;
use super::{END_MARGIN, LAST, PLACES, Playback, TIMEOUT, share};
use crate::webdriver::WebDriver;

/// No click is needed, and no sound is heard.
const ARGUMENTS: [&str; 2] = ["--autoplay-policy=no-user-gesture-required", "--mute-audio"];
/// The steps of a playback: its start, the beginning, two for each place, and two at the end.
const STEPS: u32 = 4 + 2 * PLACES.len() as u32;
/// The seconds by which the last frame may differ from the length.
const END: f64 = 0.5;

const SCRIPT: &str = "
    const [tag, url, places, left, share, last, longest, done] = arguments;
    play(tag, url, places, left, share, last, longest).then(done, (error) => done({ error: error.message }));";

/// A running browser with the page open.
#[derive(Debug)]
pub struct Chromium {
    driver: WebDriver,
    page: Page,
}

/// The result of the page's `play`.
#[derive(Debug, Deserialize)]
struct PlayReport {
    ready: f64,
    seeks: Vec<f64>,
    stalls: u64,
    end: f64,
    duration: f64,
}

impl Chromium {
    /// Starts the browser, with its files in `dir`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        let page = Page::start().await?;
        let driver = WebDriver::start(&dir.join("chromedriver.log"), &ARGUMENTS).await?;
        Ok(Self { driver, page })
    }

    /// Tells whether it plays HLS by itself.
    ///
    /// # Errors
    /// If the browser does not answer.
    pub async fn plays_hls(&self) -> Result<bool> {
        self.driver.open(&self.page.url()).await?;
        let script = "return document.createElement('video').canPlayType(arguments[0])";
        let kind = json!(["application/vnd.apple.mpegurl"]);
        let said = self.driver.run(script, kind).await?;
        Ok(said.as_str().is_some_and(|said| !said.is_empty()))
    }

    /// Plays `url` for `seconds` in all.
    ///
    /// # Errors
    /// If the element reports an error, or does not reach a place or its end.
    pub async fn play(&self, tag: &str, url: &str, seconds: f64) -> Result<Playback> {
        self.driver.open(&self.page.url()).await?;
        let share = share(seconds);
        let longest = u64::try_from(TIMEOUT.as_millis())?;
        let arguments = json!([
            tag,
            url,
            PLACES,
            END_MARGIN,
            share,
            share.max(LAST),
            longest
        ]);
        let told = self.driver.run_async(SCRIPT, arguments, TIMEOUT * STEPS);
        let told = told.await?;
        ensure!(told["error"].is_null(), "it failed: {}", told["error"]);
        let told: PlayReport = serde_json::from_value(told).context("the page's answer")?;
        ensure!(
            told.seeks.len() == PLACES.len() && told.end > told.duration - END,
            "it ended at {} of {} s",
            told.end,
            told.duration
        );
        Ok(Playback {
            ready: told.ready,
            seeks: told.seeks,
            stalls: told.stalls,
            seconds,
        })
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// If it does not close.
    pub async fn end(self) -> Result<()> {
        self.driver.end().await
    }
}
