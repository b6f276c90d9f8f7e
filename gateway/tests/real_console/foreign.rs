//! Pages of others in the operator's browser: one of the bucket, on another port of this very host, where the browser sends
//! the session's cookie; and one whose name leads to the admin listener.

use std::fs;

use serde_json::json;

use super::Stage;
use super::browser::REBOUND;
use super::mount::blocking;

/// Tries all that a page can: requests with the cookie, pictures, and at last a form.
const PAGE: &str = r#"<!doctype html><title>begun</title><form method="post"><input name="path" value="/o/0.bin">
<input name="order" value="purge"></form><script>
const admin = location.hash.slice(1), told = [];
const fields = 'path=%2Fo%2F0.bin&order=purge&action=reload&key=cache.memory&value=1MiB&end=0&stop=1';
const json = JSON.stringify({ path: '/o/0.bin' });
const changes = ['/console/objects', '/console/settings', '/console/sessions', '/console/streams', '/console/writes',
    '/console/doctor', '/purge', '/purge?path=/o/0.bin', '/reload', '/warm', '/overrides', '/api/v1/links', '/api/v1/doctor'];
const attempt = async (name, work) => {
    try { told.push(`${name}: ${await work()}`); } catch { told.push(`${name}: blocked`); }
};
const picture = url => new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => done('shown');
    image.onerror = fail;
    image.src = url;
});
(async () => {
    for (const path of changes) {
        for (const [kind, body] of [['application/x-www-form-urlencoded', fields], ['text/plain', json]]) {
            const order = { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': kind }, body };
            await attempt(path, async () => (await fetch(admin + path, order)).type);
        }
        const order = { method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body: json };
        await attempt(`${path} as JSON`, async () => (await fetch(admin + path, order)).status);
    }
    await attempt('pins', async () => (await fetch(admin + '/pins', { method: 'DELETE', credentials: 'include' })).status);
    for (const path of ['/api/v1/now', '/api/v1/objects?path=/o/', '/', '/console/live?section=now']) {
        await attempt(`read ${path}`, async () => (await fetch(admin + path, { credentials: 'include' })).status);
    }
    await attempt('the picture', () => picture(admin + '/console/preview/bytes?path=/o/dot.png'));
    window.told = told;
    document.title = 'tried';
})();
</script>"#;

/// A picture of one dot.
pub(super) const DOT: &[u8] = include_bytes!("dot.png");

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_change_and_read_nothing() {
    let stage = Stage::set().await;
    // A mount gives objects the media types of their names.
    let folder = stage.folder.path().join("o");
    blocking(move || {
        fs::write(folder.join("page.html"), PAGE).expect("written");
        fs::write(folder.join("dot.png"), DOT).expect("written");
    })
    .await;
    for path in ["/o/0.bin", "/o/dot.png"] {
        assert_eq!(stage.serving.get(path).await.status, 200);
    }
    let browser = &stage.browser;
    // The console itself shows the picture: else its refusal would show nothing.
    browser
        .open(&stage.url("/console/preview?path=/o/dot.png"))
        .await;
    let is_shown = "const image = document.querySelector('main img'); return image !== null && image.naturalWidth > 0";
    browser
        .until("the console shows the picture", is_shown)
        .await;

    let admin = format!("http://{}", stage.serving.admin);
    let page = format!("http://{}/o/page.html#{admin}", stage.serving.http);
    browser.open(&page).await;
    browser
        .until(
            "the page has tried all",
            "return document.title === 'tried'",
        )
        .await;
    let told = browser.run("return window.told", json!([])).await;
    for line in told.as_array().expect("lines") {
        let line = line.as_str().expect("a text");
        // Without CORS the page learns nothing of an answer, not even its status.
        assert!(
            line.ends_with(": blocked") || line.ends_with(": opaque"),
            "{line}"
        );
    }
    let submit = "document.forms[0].action = arguments[0]; document.forms[0].submit()";
    browser
        .run(submit, json!([format!("{admin}/console/objects")]))
        .await;
    let is_refused =
        "return document.body.innerText.includes('a page of another origin may not ask this')";
    browser.until("its form is refused", is_refused).await;

    browser
        .open(&format!("http://{REBOUND}:{}/", stage.serving.admin.port()))
        .await;
    let said = browser.text("body").await;
    assert!(
        said.contains("this host is neither an address nor one of"),
        "{said}"
    );

    // The operator is still logged in, and nothing has changed.
    browser.open(&stage.url("/console/objects?path=/o/")).await;
    let row =
        "[...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('0.bin'))";
    let is_cached = format!("return {row}.querySelectorAll('rect').length > 0");
    assert_eq!(browser.run(&is_cached, json!([])).await, json!(true));
    browser.open(&stage.url("/console/settings")).await;
    let settings = browser.text("main").await;
    assert!(settings.contains("64MiB"), "{settings}");
    stage.end().await;
}
