//! `aws s3 cp`: the most common copying tool.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Origin;
use super::minio::{ACCESS_KEY, SECRET_KEY};
use crate::child::find_program;

/// Its configuration file.
pub const CONFIG: &str = "[default]
region = us-east-1
s3 =
  addressing_style = path
  max_concurrent_requests = 16
  multipart_threshold = 32MB
  multipart_chunksize = 32MB
";

/// Returns the command that copies a file into the bucket; `None` if `aws` is not installed.
///
/// # Errors
/// If its configuration cannot be written into `dir`.
pub fn copy(dir: &Path, origin: &Origin, file: &Path, key: &str) -> Result<Option<Command>> {
    let Some(program) = find_program("TIDEGATE_AWS", &["aws"]) else {
        return Ok(None);
    };
    let config = dir.join("aws-config");
    std::fs::write(&config, CONFIG)?;
    let mut command = Command::new(program);
    command.args(["--endpoint-url", &format!("http://{}", origin.addr)]);
    command.args(["s3", "cp", "--only-show-errors"]).arg(file);
    command.arg(format!("s3://{}/{key}", origin.bucket));
    command
        .env("AWS_CONFIG_FILE", config)
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_EC2_METADATA_DISABLED", "true");
    Ok(Some(command))
}
