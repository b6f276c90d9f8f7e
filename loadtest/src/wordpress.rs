//! A real WordPress as packaged by Debian, with its own MariaDB, php-fpm and nginx. All are in one scratch folder,
//! started in the foreground and ended by process id.
//!
//! - [`Places`] is the folder: the document root, the uploads, the sockets. Uploads may be mounted before any process
//!   runs.
//! - [`Site`] is the running site, [`Browser`] a logged-in user of it.
//! - [`recipe`] reads the files of `config/`, with names, ports and passwords replaced.
//! - [`photos`] makes files to upload, [`html`] finds the images that a browser loads for a page.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use crate::child::{Server, find_program, free_addr, tools_dir};

mod anew;
mod browser;
mod curl;
pub mod gateway;
pub mod html;
pub mod photos;
mod posts;
pub mod recipe;
mod shared_folder;
mod texts;

pub use browser::{Browser, Edit, Media};
pub use curl::{Answer, Curl};
pub use posts::PublishedPosts;
pub use shared_folder::SharedFolder;

/// The directory of WordPress in Debian's package.
const PACKAGE: &str = "/usr/share/wordpress";
/// The log size of the kept database files.
const LOG_SIZE: &str = "--innodb-log-file-size=16M";
/// ImageMagick's policy file.
const MAGICK_POLICY: &str = "/etc/ImageMagick-6/policy.xml";
/// The name and password of the site's only user.
pub const USER: (&str, &str) = ("editor", "correct horse battery staple");
/// The user that PHP runs as if this process is root's, as in Debian.
pub const PHP_USER: &str = "www-data";

/// The paths and address of a site.
#[derive(Debug, Clone)]
pub struct Places {
    /// The scratch folder.
    pub dir: PathBuf,
    /// The document root.
    pub root: PathBuf,
    /// The address that nginx listens on.
    pub addr: SocketAddr,
    /// The group of nginx's workers, which may use the gateway's socket: the gateway's own.
    pub gateway_group: String,
    _shared: Option<Arc<SharedFolder>>,
}

impl Places {
    /// Copies WordPress into `dir`, which is made accessible to PHP's user.
    ///
    /// # Errors
    /// If WordPress is not installed, or the folder cannot be written.
    pub fn lay_out(dir: &Path) -> Result<Self> {
        let package = Path::new(PACKAGE);
        ensure!(
            package.join("wp-load.php").is_file(),
            "{PACKAGE} is missing: apt-get install wordpress"
        );
        fs::create_dir_all(dir)?;
        open_to_others(dir)?;
        let places = Self {
            dir: dir.to_owned(),
            root: dir.join("www"),
            addr: free_addr(),
            gateway_group: "root".to_owned(),
            _shared: match is_root() {
                true => Some(Arc::new(SharedFolder::new(dir)?)),
                false => None,
            },
        };
        let mut copy = Command::new("cp");
        must(
            copy.args(["-rL", "--no-preserve=mode"])
                .arg(package)
                .arg(&places.root),
        )?;
        fs::write(places.root.join("wp-config.php"), texts::wp_config(&places))?;
        fs::create_dir_all(places.uploads())?;
        let owned = places.root.join("wp-content");
        if is_root() {
            must(Command::new("chown").args(["-R", PHP_USER]).arg(owned))?;
        }
        Ok(places)
    }

    /// Returns WordPress' folder of uploads.
    #[must_use]
    pub fn uploads(&self) -> PathBuf {
        self.root.join("wp-content/uploads")
    }

    /// Returns the socket of php-fpm.
    #[must_use]
    pub fn php_socket(&self) -> PathBuf {
        self.dir.join("php.sock")
    }

    /// Returns the places of another nginx of the site, with the same document root and PHP.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            addr: free_addr(),
            ..self.clone()
        }
    }

    /// Returns nginx's `http` block for a site on the local disk, with a location of its own for uploads.
    #[must_use]
    pub fn http(&self, uploads: &str) -> String {
        texts::local(self, uploads)
    }

    fn database_socket(&self) -> PathBuf {
        self.dir.join("db.sock")
    }
}

/// A running nginx.
#[derive(Debug)]
pub struct Web {
    addr: SocketAddr,
    _server: Server,
}

impl Web {
    /// Starts nginx with `http` as its `http` block.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(places: &Places, http: &str) -> Result<Self> {
        let program = find_program("TIDEGATE_NGINX", &["nginx"])
            .or_else(|| Some(PathBuf::from("/usr/sbin/nginx")))
            .filter(|program| program.is_file())
            .context("nginx is missing")?;
        // A site may have several.
        let dir = places.dir.join(format!("nginx-{}", places.addr.port()));
        fs::create_dir_all(&dir)?;
        let file = dir.join("nginx.conf");
        fs::write(&file, texts::nginx(&dir, &places.gateway_group, http))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&dir).arg("-c").arg(&file);
        Ok(Self {
            addr: places.addr,
            _server: Server::start(command, &dir.join("nginx.log"), places.addr)?,
        })
    }

    /// Returns a client without a login.
    #[must_use]
    pub const fn curl(&self) -> Curl {
        Curl::new(self.addr, None)
    }
}

/// A running site.
#[derive(Debug)]
pub struct Site {
    web: Web,
    // Dropped in this order: PHP uses the database.
    _php: Server,
    /// `None`: it is another site's.
    _database: Option<Server>,
    /// The paths and address.
    pub places: Places,
}

impl Site {
    /// Starts all parts and installs WordPress. `http` is nginx's `http` block: a recipe's file, or that of
    /// [`Places::http`].
    ///
    /// # Errors
    /// If a part is not installed or does not start, or WordPress does not install itself.
    pub fn start(places: Places, http: &str) -> Result<Self> {
        let database = database(&places)?;
        let php = php(&places)?;
        let site = Self {
            web: Web::start(&places, http)?,
            places,
            _php: php,
            _database: Some(database),
        };
        let port = site.places.addr.port().to_string();
        let fields = [
            ("weblog_title", "Site"),
            ("user_name", USER.0),
            ("admin_password", USER.1),
            ("admin_password2", USER.1),
            ("admin_email", "editor@example.org"),
            ("blog_public", "0"),
            ("pw_weak", "1"),
        ];
        let installed = site
            .curl()
            .post("/wp-admin/install.php?step=2", &fields)
            .with_context(|| format!("install.php on port {port}"))?;
        ensure!(
            installed.status == 200 && installed.text().contains("wp-login.php"),
            "WordPress did not install itself: {} {}",
            installed.status,
            installed.text()
        );
        Ok(site)
    }

    /// Starts another web server of this site, with its own PHP, on the same database.
    ///
    /// # Errors
    /// If a part does not start.
    pub fn beside(&self, places: Places, http: &str) -> Result<Self> {
        let config = texts::wp_config(&self.places);
        fs::write(places.root.join("wp-config.php"), config)?;
        let php = php(&places)?;
        Ok(Self {
            web: Web::start(&places, http)?,
            places,
            _php: php,
            _database: None,
        })
    }

    /// Starts a site whose uploads are a folder of the local disk, served by nginx.
    ///
    /// # Errors
    /// As [`Site::start`].
    pub fn local(places: Places) -> Result<Self> {
        let http = places.http("location ^~ /wp-content/uploads/ { }");
        Self::start(places, &http)
    }

    /// Returns a client without a login.
    #[must_use]
    pub const fn curl(&self) -> Curl {
        self.web.curl()
    }

    /// Logs the site's user in.
    ///
    /// # Errors
    /// If WordPress refuses.
    pub fn log_in(&self) -> Result<Browser> {
        Browser::log_in(self.places.addr, &self.places.dir.join("cookies"))
    }

    /// Runs PHP with WordPress loaded, as a plugin or `wp-cli` would; returns its output.
    ///
    /// # Errors
    /// If it fails, or prints anything to standard error.
    pub fn php(&self, code: &str) -> Result<String> {
        let whole = format!(
            "<?php $_SERVER['HTTP_HOST'] = '{}'; error_reporting(E_ALL); ini_set('display_errors', 'stderr');\n\
             require '{}/wp-load.php'; require_once ABSPATH . 'wp-admin/includes/image.php';\n\
             require_once ABSPATH . 'wp-admin/includes/file.php';\n{code}",
            self.places.addr,
            self.places.root.display()
        );
        let script = tempfile::Builder::new()
            .suffix(".php")
            .tempfile_in(&self.places.dir)?;
        fs::write(script.path(), whole)?;
        fs::set_permissions(script.path(), fs::Permissions::from_mode(0o644))?;
        let mut command = as_php_user("php");
        command.args(["-d", "memory_limit=512M"]).arg(script.path());
        let output = must(&mut command)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(said.trim().is_empty(), "PHP complains: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn database(places: &Places) -> Result<Server> {
    let program = find_program("TIDEGATE_MARIADBD", &["mariadbd"])
        .unwrap_or_else(|| PathBuf::from("/usr/sbin/mariadbd"));
    let data = places.dir.join("db");
    let mut copy = Command::new("cp");
    must(copy.arg("-r").arg(empty_database(&program)?).arg(&data))?;
    let first = places.dir.join("first.sql");
    fs::write(&first, texts::DATABASE)?;
    let mut command = Command::new(program);
    command.args(["--no-defaults", "--skip-networking", LOG_SIZE]);
    command.arg(format!("--datadir={}", data.display()));
    let socket = places.database_socket();
    command.arg(format!("--socket={}", socket.display()));
    let pid = places.dir.join("db.pid");
    command.arg(format!("--pid-file={}", pid.display()));
    command.arg(format!("--init-file={}", first.display()));
    if is_root() {
        command.arg("--user=root");
    }
    let ready = || UnixStream::connect(&socket).is_ok();
    Server::start_when(command, &places.dir.join("db.log"), ready).context("mariadbd")
}

/// Returns the data files of an empty database. Making them takes some seconds, so they are kept beside the tools of
/// `loadtest/setup`.
fn empty_database(program: &Path) -> Result<PathBuf> {
    let output = must(Command::new(program).arg("--version"));
    let output = output.context("MariaDB is missing: apt-get install mariadb-server-core")?;
    let said = String::from_utf8(output.stdout)?;
    let version = said
        .split_whitespace()
        .skip_while(|word| *word != "Ver")
        .nth(1);
    let name = format!("mariadb-{}", version.context("no version")?);
    let tools = tools_dir().context("no home directory")?;
    let kept = tools.with_file_name(name);
    if kept.is_dir() {
        return Ok(kept);
    }
    let parent = kept.parent().context("it lies in a folder")?;
    fs::create_dir_all(parent)?;
    let scratch = tempfile::tempdir_in(parent)?;
    let data = scratch.path().join("data");
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
    install.args(["--skip-test-db", LOG_SIZE]);
    if is_root() {
        install.arg("--user=root");
    }
    must(install.arg(format!("--datadir={}", data.display())))?;
    match fs::rename(&data, &kept) {
        // Another process was faster.
        Err(_) if kept.is_dir() => {}
        renamed => renamed?,
    }
    Ok(kept)
}

fn php(places: &Places) -> Result<Server> {
    let file = places.dir.join("php-fpm.conf");
    fs::write(&file, texts::php_fpm(places, is_root()))?;
    let mut command = allowing_pdf(places, &fpm_program()?)?;
    command.args(["--nodaemonize", "--fpm-config"]).arg(&file);
    // Beside PHP's own folder of settings, that of the shipped `uploads.ini`.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/wordpress");
    command.env("PHP_INI_SCAN_DIR", format!(":{}", shipped.display()));
    let socket = places.php_socket();
    let ready = || UnixStream::connect(&socket).is_ok();
    Server::start_when(command, &places.dir.join("php.log"), ready).context("php-fpm")
}

/// Returns a command for a program whose ImageMagick may read PDFs. Debian forbids that, and only the file in `/etc`
/// can allow it: the program sees a changed copy in its place.
fn allowing_pdf(places: &Places, program: &Path) -> Result<Command> {
    let policy = Path::new(MAGICK_POLICY);
    if !is_root() || !policy.is_file() {
        return Ok(Command::new(program));
    }
    let own = places.dir.join("policy.xml");
    let text = fs::read_to_string(policy)?;
    let allowed = text
        .lines()
        .filter(|line| !line.contains("pattern=\"PDF\""));
    fs::write(&own, allowed.collect::<Vec<_>>().join("\n"))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "unchanged", "sh", "-c"]);
    command.arg(r#"mount --bind "$0" "$1" && shift && exec "$@""#);
    command.arg(own).arg(policy).arg(program);
    Ok(command)
}

/// Finds php-fpm, whose name in Debian includes its version.
fn fpm_program() -> Result<PathBuf> {
    if let Some(found) = find_program("TIDEGATE_PHP_FPM", &["php-fpm"]) {
        return Ok(found);
    }
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("php-fpm")
    };
    let mut found: Vec<_> = fs::read_dir("/usr/sbin")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(named)
        .collect();
    found.sort();
    found
        .pop()
        .context("php-fpm is missing: apt-get install php-fpm")
}

/// Returns a command that runs a program as PHP's user, if this process is root's.
#[must_use]
pub fn as_php_user(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let user = ["--reuid", PHP_USER, "--regid", PHP_USER, "--clear-groups"];
    command.args(user).arg(program);
    command
}

/// Runs a program to its end.
///
/// # Errors
/// If it does not start, or fails; with its error output.
pub fn must(command: &mut Command) -> Result<Output> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", said.trim());
    Ok(output)
}

/// Tells whether this process is root's, and may become PHP's user.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Lets other users pass through a folder and its parents, up to the temporary directory.
pub fn open_to_others(dir: &Path) -> Result<()> {
    let temporary = std::env::temp_dir();
    for folder in dir.ancestors().take_while(|folder| **folder != *temporary) {
        let mode = fs::metadata(folder)?.permissions().mode();
        if mode & 0o011 != 0o011 {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o011))?;
        }
    }
    Ok(())
}
