# Plays a model: answers with a value that the schema does not know, and corrects it when it is told.
# It gets one JSON document on standard input; "mode" says whether this is a correction.
case "$(cat)" in
  *'"mode":"resume"'*) printf '%s\n' 'Sorry! {"/issues/0/severity": "high"}' ;;
  *) printf '%s\n' 'Here is my review:' '```json' \
    '{"summary": "One loop never ends, the rest is fine and well tested.",' \
    ' "issues": [{"file": "src/retry.rs", "severity": "critical", "message": "no upper bound on retries"},' \
    '            {"file": "src/main.rs", "severity": "low", "message": "unused import"}],}' '```' ;;
esac
