//! The configuration of a site's parts.

use std::path::Path;

use super::{PHP_USER, Places};

/// The database's first commands.
pub(super) const DATABASE: &str = "CREATE DATABASE IF NOT EXISTS wordpress;\n\
    CREATE USER IF NOT EXISTS wordpress@localhost IDENTIFIED BY 'wordpress';\n\
    GRANT ALL ON wordpress.* TO wordpress@localhost;\n";

pub(super) fn wp_config(places: &Places) -> String {
    let socket = places.database_socket();
    let mut text = format!(
        "<?php\ndefine('DB_NAME', 'wordpress');\ndefine('DB_USER', 'wordpress');\n\
         define('DB_PASSWORD', 'wordpress');\ndefine('DB_HOST', 'localhost:{}');\n\
         define('DB_CHARSET', 'utf8mb4');\ndefine('DB_COLLATE', '');\n",
        socket.display()
    );
    for name in ["AUTH", "SECURE_AUTH", "LOGGED_IN", "NONCE"] {
        text += &format!(
            "define('{name}_KEY', '{name} key');\ndefine('{name}_SALT', '{name} salt');\n"
        );
    }
    // WordPress fetches nothing from elsewhere, and makes only the requests of the test.
    for name in [
        "DISABLE_WP_CRON",
        "AUTOMATIC_UPDATER_DISABLED",
        "WP_HTTP_BLOCK_EXTERNAL",
    ] {
        text += &format!("define('{name}', true);\n");
    }
    text + "define('FS_METHOD', 'direct');\n$table_prefix = 'wp_';\n\
            if (!defined('ABSPATH')) { define('ABSPATH', __DIR__ . '/'); }\n\
            require_once ABSPATH . 'wp-settings.php';\n"
}

pub(super) fn php_fpm(places: &Places, root: bool) -> String {
    let user = match root {
        true => format!("user = {PHP_USER}\ngroup = {PHP_USER}\n"),
        false => String::new(),
    };
    let (dir, socket) = (places.dir.display(), places.php_socket());
    format!(
        "[global]\npid = {dir}/php.pid\nerror_log = /dev/stderr\n[www]\n{user}listen = {}\n\
         listen.mode = 0666\npm = static\npm.max_children = 6\ncatch_workers_output = yes\n\
         php_admin_value[sendmail_path] = /bin/true\n",
        socket.display()
    )
}

/// Returns a whole configuration of nginx around an `http` block. Its workers are of `group`.
pub(super) fn nginx(dir: &Path, group: &str, http: &str) -> String {
    let dir = dir.display();
    let user = match super::is_root() {
        true => format!("user {PHP_USER} {group};\n"),
        false => String::new(),
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {dir}/{kind};\n"))
        .collect();
    format!(
        "{user}worker_processes 2;\ndaemon off;\npid {dir}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 1024; }}\nhttp {{\ninclude /etc/nginx/mime.types;\n\
         access_log off;\nsendfile on;\ntcp_nopush on;\n{temporary}{http}\n}}\n"
    )
}

/// Returns a server of the local disk; `uploads` is its location of uploads.
pub(super) fn local(places: &Places, uploads: &str) -> String {
    let (root, socket) = (places.root.display(), places.php_socket());
    format!(
        "server {{\nlisten {};\nroot {root};\nindex index.php;\nclient_max_body_size 2g;\n\
         open_file_cache max=1000 inactive=60s;\nopen_file_cache_valid 1s;\n\
         {uploads}\n\
         location / {{ try_files $uri $uri/ /index.php?$args; }}\n\
         location ~ \\.php$ {{\ntry_files $uri =404;\ninclude /etc/nginx/fastcgi_params;\n\
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
         fastcgi_pass unix:{};\nfastcgi_read_timeout 300s;\n}}\n}}\n",
        places.addr,
        socket.display()
    )
}
