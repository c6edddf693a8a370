#!/usr/bin/env bash
# What action.yml runs. Its inputs are in INPUT_*, GitHub's files and folders in GITHUB_* and RUNNER_TEMP.
set -u -o pipefail

# Fill LIST with the lines of a text that are not empty.
lines() {
    LIST=()
    local line
    while IFS= read -r line; do
        [ -z "$line" ] || LIST+=("$line")
    done <<< "$1"
}

if [ -z "${INPUT_RUN//[[:space:]]/}" ]; then
    echo "::error title=opscaffold::run: nothing to run: name check, migrate, template or update"
    exit 2
fi
for step in $INPUT_RUN; do
    case "$step" in
    check | migrate | template | update) ;;
    *)
        echo "::error title=opscaffold::run: $step is none of check, migrate, template and update"
        exit 2
        ;;
    esac
done

python="$INPUT_PYTHON"
if [ -z "$python" ]; then
    environment="$RUNNER_TEMP/opscaffold"
    base="$(command -v python3 || command -v python)"
    "$base" -m venv "$environment" || exit
    python="$environment/bin/python"
    [ -x "$python" ] || python="$environment/Scripts/python.exe"
    echo "::group::Install opscaffold"
    # Requirements are several words, and may hold no blanks of their own.
    # shellcheck disable=SC2086
    "$python" -m pip install --disable-pip-version-check -q "$ACTION_PATH" $INPUT_REQUIREMENTS || exit
    echo "::endgroup::"
fi
opscaffold() { "$python" -m opscaffold "$@"; }

worst=0
# Keep the highest exit code: 2, wrong usage, says more than 1, findings.
note() {
    local code="$1"
    shift
    echo "| \`$*\` | $code |" >> "$summary"
    [ "$code" -le "$worst" ] || worst="$code"
}

summary="${GITHUB_STEP_SUMMARY:-/dev/null}"
printf '| command | exit code |\n|---|---|\n' >> "$summary"
lines "$INPUT_PATHS"
paths=(${LIST[@]+"${LIST[@]}"})
for step in $INPUT_RUN; do
    case "$step" in
    check)
        lines "$INPUT_ARGUMENTS"
        more=(${LIST[@]+"${LIST[@]}"})
        found="$(opscaffold check --format github ${more[@]+"${more[@]}"} -- ${paths[@]+"${paths[@]}"})"
        code=$?
        [ -z "$found" ] || printf '%s\n' "$found"
        # What ended otherwise has not looked, which is not the same as nothing found.
        if [ "$code" -le 1 ]; then
            echo "findings=$(printf '%s' "$found" | grep -c '^::')" >> "${GITHUB_OUTPUT:-/dev/null}"
        fi
        note "$code" opscaffold check
        if [ -n "$INPUT_SARIF" ] && [ "$code" -le 1 ]; then
            opscaffold check --format sarif --output "$INPUT_SARIF" --exit-zero \
                ${more[@]+"${more[@]}"} -- ${paths[@]+"${paths[@]}"}
            note "$?" opscaffold check --format sarif
        fi
        ;;
    migrate)
        lines "$INPUT_MIGRATE_ARGUMENTS"
        opscaffold migrate --check ${LIST[@]+"${LIST[@]}"} -- ${paths[@]+"${paths[@]}"}
        note "$?" opscaffold migrate --check
        ;;
    template)
        if [ -n "$INPUT_TEMPLATE" ]; then
            opscaffold template check --template "$INPUT_TEMPLATE"
        else
            opscaffold template check
        fi
        note "$?" opscaffold template check
        ;;
    update)
        lines "$INPUT_PACKAGES"
        for package in ${LIST[@]+"${LIST[@]}"}; do
            opscaffold update --check -- "$package"
            note "$?" opscaffold update --check "$package"
        done
        ;;
    esac
done
exit "$worst"
