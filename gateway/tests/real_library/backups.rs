//! Programs that back up, copy and build, in the mount and in a local folder.
//!
//! `restic` and `borg` back up 50 MB by default; `TIDEGATE_BACKUP_MB=2000` is the full form. restic and git run on a mount whose
//! closes wait for the bucket as well (`commit = "close"`, by the recipe of Paperless).

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use loadtest::child::Server;
use loadtest::pattern::Pattern;
use loadtest::wordpress::must;

use crate::shelf::{AUDIOBOOKSHELF, PAPERLESS, Recipe, Shelf};

/// A time that no file gets by itself: 2020-09-13.
fn old() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000)
}

/// Makes the folder `data` with files of 1 KB to 5 MB that are `megabytes` in all, and with a link. Their times, modes and
/// owners, and those of the folders, are not those that a new file gets.
fn data(given: &Path, megabytes: u64) -> Result<()> {
    let folder = given.join("data");
    let mut left = megabytes * 1_000_000;
    for seed in 0.. {
        let len = [1_000, 40_000, 700_000, 5_000_000][seed as usize % 4].min(left);
        let path = folder.join(format!("{}/{seed}.bin", seed % 7));
        std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        std::fs::write(&path, Pattern { seed, len }.all())?;
        std::fs::File::options()
            .write(true)
            .open(&path)?
            .set_modified(old())?;
        left -= len;
        if left == 0 {
            break;
        }
    }
    let script = "
        chmod 750 1; chmod 604 0/0.bin; chown 1234:5678 2 1/1.bin; ln -s 0/0.bin link; chown -h 1234:5678 link
        touch -h -d @1500000000.123456789 link; touch -d @1400000000.987654321 0/0.bin
        find . -type d -exec touch -d 2018-01-02T03:04:05.678 {} +";
    must(
        Command::new("sh")
            .args(["-ec", script])
            .current_dir(&folder),
    )
    .map(drop)
}

fn megabytes() -> u64 {
    let asked = std::env::var("TIDEGATE_BACKUP_MB");
    asked.map_or(50, |text| text.parse().expect("a number"))
}

/// Runs a script in the folder and in the mount; both must succeed and say the same, and leave the same in `folder`.
async fn both(shelf: &mut Shelf, name: &str, script: &str, folder: &str) -> Result<()> {
    let local = shelf.run(&shelf.local, script)?;
    ensure!(local.status.success(), "{name}, local: {local:?}");
    let mount = shelf
        .counted(name, |shelf| shelf.run(&shelf.mount, script))
        .await?;
    ensure!(mount.status.success(), "{name}: {mount:?}");
    ensure!(
        local.stdout == mount.stdout,
        "{name}: local {local:?}, mount {mount:?}"
    );
    shelf.same_below(name, folder)
}

/// The repository's keys and names are random: what is restored is compared, and not the repository.
async fn restic(recipe: Recipe) -> Result<()> {
    let mut shelf = Shelf::start(recipe).await?;
    data(&shelf.given, megabytes())?;
    let script = "
        export RESTIC_PASSWORD=secret RESTIC_CACHE_DIR=$(mktemp -d) RESTIC_REPOSITORY=$PWD/repository
        more() { echo more > data/more; touch -d 2017-01-02 data/more data; }
        less() { rm data/more; touch -d 2016-01-02 data; }
        back=$(mktemp -d)
        restic init -q
        cd \"$given\"
        restic backup -q data
        more; restic backup -q data; less
        restic forget -q --keep-last 1 --prune
        restic check -q --read-data
        restic restore -q latest --target \"$back\"
        diff -r -x more data \"$back/data\"
        cd - > /dev/null
        umask 027; restic restore -q latest --target restored
        restic snapshots -q --json | grep -o '\"paths\"' | wc -l
        rm -r \"$back\" \"$RESTIC_CACHE_DIR\"";
    both(&mut shelf, "restic", script, "restored").await?;
    ensure!(shelf.mount.join("restored/data/more").is_file());
    shelf.finish_alone().await
}

#[tokio::test(flavor = "multi_thread")]
async fn restic_backs_up_and_restores() -> Result<()> {
    restic(AUDIOBOOKSHELF).await
}

#[tokio::test(flavor = "multi_thread")]
async fn restic_backs_up_where_a_close_waits_for_the_bucket() -> Result<()> {
    restic(PAPERLESS).await
}

#[tokio::test(flavor = "multi_thread")]
async fn borg_backs_up_and_restores() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    data(&shelf.given, megabytes())?;
    let script = "
        export BORG_BASE_DIR=$(mktemp -d) BORG_REPO=$PWD/repository BORG_PASSPHRASE=secret
        export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
        more() { echo more > data/more; touch -d 2017-01-02 data/more data; }
        less() { rm data/more; touch -d 2016-01-02 data; }
        back=$(mktemp -d)
        borg init --encryption=repokey-blake2 2> /dev/null
        (cd \"$given\"; borg create ::one data; more; borg create ::two data; less)
        borg delete ::one
        borg compact
        borg check --verify-data
        (cd \"$back\"; borg extract ::two)
        diff -r -x more \"$given/data\" \"$back/data\"
        umask 027; mkdir restored; (cd restored; borg extract ::two)
        borg list --short
        rm -r \"$back\" \"$BORG_BASE_DIR\"";
    both(&mut shelf, "borg", script, "restored").await?;
    ensure!(shelf.mount.join("restored/data/more").is_file());
    shelf.finish_alone().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_cloned_built_and_committed() -> Result<()> {
    cloned(AUDIOBOOKSHELF).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_cloned_where_a_close_waits_for_the_bucket() -> Result<()> {
    cloned(PAPERLESS).await
}

async fn cloned(recipe: Recipe) -> Result<()> {
    let mut shelf = Shelf::start(recipe).await?;
    project(&shelf.given.join("project"))?;
    let script = "
        umask 027
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
        git clone -q \"$given/project\" work
        cd work
        git config user.name A; git config user.email a@example.org; git config core.fileMode
        seen() { find . -name .git -prune -o -printf '%y %m %l %P\\n' | sort; git status --short; }
        seen; ./script; readlink link
        make -s; ./program; make -q; seen; rm program
        chmod -x script; git status --short; git commit -qam 'no program'; git checkout -q HEAD~1; seen; git checkout -q -
        echo '// more' >> main.c; git commit -qam more
        git mv part.c other.c; sed -i s/part.c/other.c/ Makefile; git commit -qam renamed
        git mv texts notes; git status --short | wc -l; git commit -qm moved; seen
        make -s; ./program; make clean
        git log --format=%s; git status --short; git fsck --strict; git gc -q; git fsck
        git stash list; git checkout -q -b side HEAD~1; cat Makefile; git checkout -q -; cat Makefile; seen";
    both(&mut shelf, "git and make", script, "work").await?;
    shelf.finish_alone().await
}

/// Makes a repository with a small C program.
fn project(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder.join("texts/inner"))?;
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
    write(
        "Makefile",
        "program: main.c part.c\n\tcc -o program main.c part.c\nclean:\n\trm program\n",
    )?;
    write(
        "main.c",
        "int part(void);\nint main(void) { return part(); }\n",
    )?;
    write("part.c", "int part(void) { return 0; }\n")?;
    write("script", "#!/bin/sh\necho it runs\n")?;
    for n in 0..60 {
        let place = ["", "texts/", "texts/inner/"][n % 3];
        write(
            &format!("{place}text {n}.txt"),
            &format!("{n}\n").repeat(200),
        )?;
    }
    let script = "
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        chmod +x script; ln -s main.c link; echo program > .gitignore
        git init -q; git add .
        git -c user.name=A -c user.email=a@example.org commit -qm first";
    must(Command::new("sh").args(["-ec", script]).current_dir(folder)).map(drop)
}

/// Programs that take files apart, put them together, and change them in place.
#[tokio::test(flavor = "multi_thread")]
async fn archives_and_edits() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    data(&shelf.given, 8)?;
    let script = "
        cd \"$given\"; mkdir data/closed; echo a > data/closed/a; chmod 640 data/closed/a; ln -s a data/closed/link
        echo b > data/run; chmod 755 data/run; chmod 750 data/closed
        touch -h -d 2019-03-04T05:06:07 data/run data/closed/a data/closed/link data/closed data
        tar cf data.tar data; rm -f data.zip; zip -qr data.zip data";
    ensure!(shelf.run(&shelf.local, script)?.status.success());
    for (name, script) in [
        ("tar x", "tar xf \"$given/data.tar\"; mv data tree; ls tree"),
        (
            "mv",
            "mkdir -p old/inner; echo a > old/inner/a; echo b > old/b; ln -s b old/link; chmod 4711 old/b
             touch -h -d 2011-12-13T14:15:16.123456789 old/inner/a old/b old/link old/inner old
             mv old new; mv new/b new/c; touch -d 2012-12-13 new; mv new/c c; mv c new/inner/d; touch -d 2013-12-13 new/inner new; ls -R new",
        ),
        ("tar x, umask", "umask 027; tar xf \"$given/data.tar\" --no-same-permissions; rm -r data"),
        ("tar c", "tar cf all.tar tree; tar tf all.tar | sort | cksum; rm all.tar"),
        ("unzip", "umask 027; unzip -q \"$given/data.zip\" -d unzipped; ls unzipped/data"),
        (
            "zip -u",
            "cp \"$given/data.zip\" a.zip; touch a.zip; (cd unzipped; echo more > data/more; zip -qu ../a.zip data/more)
             unzip -tqq a.zip; unzip -p a.zip data/more; rm a.zip",
        ),
        (
            "sed -i",
            "umask 027; printf 'a\\nb\\n' > text; sed -i s/a/c/ text; sed -i.bak s/b/d/ text; cat text text.bak",
        ),
        (
            "appends",
            "for writer in 1 2 3 4; do
                 (exec 8>> held; for n in $(seq 100); do printf '%s %03d %0200d\\n' $writer $n 0 >&8; done) &
                 (for n in $(seq 20); do printf '%s %03d %0200d\\n' $writer $n 0 >> opened; done) &
             done; wait
             sort -s -k 1,1 held > held.sorted; sort -s -k 1,1 opened > opened.sorted; rm held opened; wc -l *.sorted",
        ),
        (
            "flock",
            "for n in 1 2 3 4; do for m in 1 2 3 4 5; do flock lock sh -c 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n'; done & done
             wait; cat n",
        ),
    ] {
        shelf.step(name, script).await?;
    }
    shelf.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_its_attributes() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    let script = "
        printf '#!/bin/sh\\necho it runs\\n' > \"$given/script\"
        chmod 755 \"$given/script\"; touch -d 2020-01-01 \"$given/script\"
        cp -a \"$given/script\" .; sh script";
    shelf.step("cp -a", script).await?;
    data(&shelf.given, 8)?;
    let script = "umask 027; cp -a \"$given/data\" .; cp -a data again; diff -r data again";
    shelf.step("cp -a of a folder", script).await?;
    shelf.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rsync_mirrors_twice() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    data(&shelf.given, 8)?;
    for (name, script) in [
        (
            "rsync",
            "umask 027; rsync -a --delete \"$given/data\" .; ls data",
        ),
        (
            "rsync again",
            "rsync -a --delete --itemize-changes \"$given/data\" .; ls data",
        ),
        (
            "rsync of changes",
            "rm -rf \"$given/data/3\"; echo new > \"$given/data/0/new\"; rsync -ac --delete \"$given/data\" .; ls data data/0",
        ),
    ] {
        shelf.step(name, script).await?;
    }
    shelf.finish().await
}

/// A database is dumped onto the mount as the dump is made, and loaded again from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_dumped_and_loaded_again() -> Result<()> {
    let mut shelf = Shelf::start(AUDIOBOOKSHELF).await?;
    let database = Database::start(&shelf.given.join("database"))?;
    database.says(
        "create database books; use books;
         create table book (n int primary key, title text, cover longblob);
         insert into book select seq, concat('book ', seq), repeat(char(65 + seq % 26), 3000) from seq_1_to_3000;",
    )?;
    let socket = database.socket();
    let script = format!(
        "mariadb-dump --no-defaults --socket={socket} --user=root --skip-dump-date --databases books > dump.sql
         mariadb --no-defaults --socket={socket} --user=root -e 'drop database books'
         mariadb --no-defaults --socket={socket} --user=root < dump.sql
         mariadb --no-defaults --socket={socket} --user=root -N -e 'checksum table books.book; select count(*) from books.book'
         gzip -n < dump.sql > dump.sql.gz; gzip -d < dump.sql.gz | cmp - dump.sql"
    );
    shelf.step("mariadb-dump", &script).await?;
    drop(database);
    shelf.finish().await
}

/// A running MariaDB without a network.
struct Database {
    folder: PathBuf,
    _server: Server,
}

impl Database {
    fn start(folder: &Path) -> Result<Self> {
        std::fs::create_dir(folder)?;
        must(
            Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal"])
                .args(["--user=root", "--skip-test-db"])
                .arg(format!("--datadir={}", folder.join("data").display())),
        )?;
        let socket = folder.join("socket");
        let mut command = Command::new("/usr/sbin/mariadbd");
        command.args(["--no-defaults", "--user=root", "--skip-networking"]);
        command.arg(format!("--datadir={}", folder.join("data").display()));
        command.arg(format!("--socket={}", socket.display()));
        let ready = || UnixStream::connect(&socket).is_ok();
        let server = Server::start_when(command, &folder.join("log"), ready)?;
        Ok(Self {
            folder: folder.to_owned(),
            _server: server,
        })
    }

    fn socket(&self) -> String {
        self.folder.join("socket").display().to_string()
    }

    fn says(&self, sql: &str) -> Result<()> {
        let socket = format!("--socket={}", self.socket());
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", &socket, "--user=root", "-e", sql]);
        must(&mut client).map(drop)
    }
}
