# Installs a headless browser for the tests of pages, where the machine lacks it. Source it in the repository's root. Without it, these
# tests are skipped by name, and `.ci/expected-skips` does not allow that.
if ! command -v chromedriver >/dev/null || ! command -v chromium >/dev/null; then
    { apt-get update -q && apt-get install -y -q --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >/dev/null || true
fi
