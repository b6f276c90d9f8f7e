//! The gateway of `docker/wordpress/compose.yaml`, with the file's own configuration.

use std::fs;
use std::path::Path;

use anyhow::Result;
use loadtest::child::free_addr;
use loadtest::peers::minio::ACCESS_KEY;
use loadtest::wordpress::Curl;
use loadtest::wordpress::gateway::{Gateway, Listens};
use loadtest::wordpress::recipe::{self, Home, TOKEN};

use crate::world::{PROGRAM, Store};

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_the_compose_file_mounts_serves_and_takes_its_token() -> Result<()> {
    let Store {
        bucket, cloud, dir, ..
    } = &Store::start().await?;
    let home = Home::make(dir.path().join("gateway"))?;
    let (public, above) = (free_addr()?, dir.path().join("above"));
    let mount = above.join("uploads");
    fs::create_dir_all(&mount)?;
    let path = |name: &str| home.dir.join(name).display().to_string();
    let names = [
        ("0.0.0.0:8080", public.to_string()),
        ("0.0.0.0:8081", home.admin.to_string()),
        ("/run/gateway/token", path("token")),
        ("/run/bucket/secret", path("s3-secret")),
        ("/var/cache/tidegate", path("cache")),
        ("/var/lib/tidegate", path("state")),
        ("http://minio:9000", format!("http://{}", cloud.addr())),
        (
            "access_key_id = \"tidegate\"",
            format!("access_key_id = \"{ACCESS_KEY}\""),
        ),
        ("/mnt/wordpress", above.display().to_string()),
    ];
    let file = "../docker/wordpress/tidegate.toml";
    let toml = recipe::replaced(&recipe::read(file)?, &names)?;
    let listens = Listens::Tcp(public);
    let program = Path::new(PROGRAM);
    let _gateway = Gateway::start_on(program, &home, &toml, Some(mount.clone()), listens)?;
    fs::write(mount.join("photo.jpg"), "a photo")?;
    let visitor = Curl::new(public, None);
    let seen = visitor.get("/wp-content/uploads/photo.jpg")?;
    assert_eq!((seen.status, seen.text().as_str()), (200, "a photo"));
    let operator = Curl::new(home.admin, None);
    assert_eq!(operator.get("/healthz")?.status, 200);
    let purge = "/purge?path=/wp-content/uploads/photo.jpg";
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(
        operator.run(purge, &["-X", "POST", "-H", &bearer])?.status,
        200
    );
    assert_eq!(operator.run(purge, &["-X", "POST"])?.status, 401);
    crate::world::until(async || bucket.get("uploads/photo.jpg").await.is_ok()).await
}
