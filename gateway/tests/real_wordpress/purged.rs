//! Purges between WordPress and the gateway, both ways: the plugin of `config/wordpress`, which the gateway calls, and the
//! requests of Proxy Cache Purge and Nginx Helper, sent by WordPress as those plugins have it send them.

use std::fs;
use std::net::SocketAddr;

use anyhow::Result;

use crate::nginx::Nginx;
use crate::ports::free_addr;
use crate::world::World;

const TOKEN: &str = "a token of the tests";

/// A plugin that caches pages, as far as the one under test looks for it.
const PAGE_CACHE: &str = "<?php\nfunction rocket_clean_domain() { update_option( 'cleaned', 1 + (int) get_option( 'cleaned' ) ); }\n\
    add_action( 'litespeed_purge_all', function () { update_option( 'cleaned', 10 + (int) get_option( 'cleaned' ) ); } );\n";

/// Puts a plugin that is always on into the site.
fn install(world: &World, name: &str, text: &str) -> Result<()> {
    let folder = world.site.places.root.join("wp-content/mu-plugins");
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), text)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_empties_page_caches_for_the_token_alone() -> Result<()> {
    let world = World::start().await;
    let plugin = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../config/wordpress/tidegate-purge.php"
    );
    install(&world, "tidegate-purge.php", &fs::read_to_string(plugin)?)?;
    let curl = world.site.curl();
    let purge = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        let form = "Content-Type: application/json";
        let args = ["-X", "POST", "-H", &bearer, "-H", form, "-d", "{}"];
        // Links without pretty paths.
        curl.run("/index.php?rest_route=/tidegate/v1/purge", &args)
    };
    let is_refused = |status: u16| status == 401 || status == 403;
    // Without a token nothing is admitted, nor by one that is too short.
    for (own, shown) in [("", ""), ("", TOKEN), ("short", "short")] {
        let defined = match own {
            "" => "<?php\n".to_owned(),
            own => format!("<?php define( 'TIDEGATE_PURGE_TOKEN', '{own}' );\n"),
        };
        install(&world, "a-token.php", &defined)?;
        let answer = purge(shown)?;
        assert!(
            is_refused(answer.status),
            "{own} {shown}: {}",
            answer.text()
        );
    }
    let defined = format!("<?php define( 'TIDEGATE_PURGE_TOKEN', '{TOKEN}' );\n");
    install(&world, "a-token.php", &defined)?;
    for wrong in ["", "a token of the test", "A token of the tests"] {
        let answer = purge(wrong)?;
        assert!(is_refused(answer.status), "{wrong}: {}", answer.text());
    }
    let answer = purge(TOKEN)?;
    assert_eq!((answer.status, &*answer.text()), (200, r#"{"purged":[]}"#));
    install(&world, "page-cache.php", PAGE_CACHE)?;
    let answer = purge(TOKEN)?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.text(),
        r#"{"purged":["rocket_clean_domain","litespeed_purge_all"]}"#
    );
    assert_eq!(world.site.php("echo get_option('cleaned');")?, "11");
    // It is a POST: a link in a mail empties nothing.
    let link = curl.get("/index.php?rest_route=/tidegate/v1/purge")?;
    assert_eq!(link.status, 404, "{}", link.text());
    Ok(())
}

/// Has WordPress send a request; returns the status and the body.
fn sent(world: &World, url: &str, arguments: &str) -> Result<String> {
    let code = format!(
        "$answer = wp_remote_request('{url}', {arguments});\n\
         if (is_wp_error($answer)) {{ die($answer->get_error_message()); }}\n\
         echo wp_remote_retrieve_response_code($answer), ' ', trim(wp_remote_retrieve_body($answer));"
    );
    world.site.php(&code)
}

/// Proxy Cache Purge sends PURGE with the site's host, and a header that says whether it means a path or all below it.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_plugins_purge_the_public_listener() -> Result<()> {
    let listener = free_addr();
    let world = World::with(|toml| with_listener(&toml, listener)).await;
    let uploads = "/wp-content/uploads";
    let plugin = |path: &str, method: &str| {
        let arguments = format!(
            "['sslverify' => false, 'method' => 'PURGE', \
             'headers' => ['host' => 'site.example', 'X-Purge-Method' => '{method}']]"
        );
        sent(&world, &format!("http://{listener}{path}"), &arguments)
    };
    let put = async |text: String| world.bucket.put("uploads/one.txt", text.into()).await;
    let seen = || world.visit(&format!("{uploads}/one.txt")).text();
    put("old".to_owned()).await?;
    assert_eq!(seen(), "old");
    // Written past the gateway, so that nothing but a purge brings it.
    for (n, (path, method)) in [
        (format!("{uploads}/one.txt"), "default"),
        (format!("{uploads}/.*"), "regex"),
        ("/.*".to_owned(), "regex"),
    ]
    .iter()
    .enumerate()
    {
        let (before, new) = (seen(), format!("new {n}"));
        put(new.clone()).await?;
        assert_eq!(seen(), before, "{path}: it is cached");
        assert_eq!(plugin(path, method)?, "200 purged 1", "{path}");
        assert_eq!(seen(), new, "{path}");
    }
    // Nginx Helper's GET becomes a PURGE in nginx; without that it is none, and purges nothing.
    let helper = format!("http://{listener}/purge{uploads}/one.txt");
    let got = sent(&world, &helper, "['method' => 'GET']")?;
    assert!(got.starts_with("404"), "{got}");
    // The first request of each plugin's test button.
    assert_eq!(
        plugin("/no-such-path", "default")?.split(' ').next(),
        Some("404")
    );
    Ok(())
}

/// Nginx Helper sends GET, which the shipped file turns into a PURGE. Its *Purge Entire Cache* sends nothing, and ends with an
/// action, for which OPERATIONS has a plugin.
#[tokio::test(flavor = "multi_thread")]
async fn nginx_helper_purges_through_nginx_and_by_its_action() -> Result<()> {
    let listener = free_addr();
    let world = World::with(|toml| with_listener(&toml, listener)).await;
    let nginx = Nginx::start(
        &format!("upstream tidegate {{ server {listener}; }}"),
        include_str!("../../../config/nginx/wordpress-purge.conf"),
    );
    let path = "/wp-content/uploads/one.txt";
    let put = async |text: &str| {
        let text = text.to_owned();
        world.bucket.put("uploads/one.txt", text.into()).await
    };
    let seen = || world.visit(path).text();
    put("old").await?;
    assert_eq!(seen(), "old");
    put("new").await?;
    assert_eq!(seen(), "old", "it is cached");
    let helper = format!("http://{}/purge{path}", nginx.addr());
    let get = "['method' => 'GET', 'headers' => ['host' => 'site.example']]";
    assert_eq!(sent(&world, &helper, get)?, "200 purged 1");
    assert_eq!(seen(), "new");

    let page = include_str!("../../docs/OPERATIONS.md");
    let (_, plugin) = page.split_once("```php\n").expect("its plugin");
    let plugin = plugin.split("```").next().expect("its end");
    let plugin = plugin.replace("127.0.0.1:8080", &listener.to_string());
    install(&world, "purge-all.php", &plugin)?;
    put("newest").await?;
    assert_eq!(seen(), "new", "it is cached");
    world
        .site
        .php("do_action('rt_nginx_helper_after_fastcgi_purge_all');")?;
    assert_eq!(seen(), "newest");
    Ok(())
}

/// Adds a listener for the plugins of this machine to the recipe.
fn with_listener(toml: &str, listener: SocketAddr) -> String {
    let (before, after) = toml.split_once("[http]\nlisten = ").expect("the recipe's");
    let (own, after) = after.split_once('\n').expect("a line");
    format!(
        "{before}[http]\nlisten = [{own}, \"{listener}\"]\npurge_networks = [\"127.0.0.1\"]\n\
         trusted_proxies = [\"127.0.0.1\"]\n{after}"
    )
}
