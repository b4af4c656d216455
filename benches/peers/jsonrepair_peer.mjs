// Repairs every text of a JSONL file with npm jsonrepair and writes one answer per line; the last line has the seconds.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";

const require = createRequire(process.cwd() + "/");
const { jsonrepair } = require("jsonrepair");

const texts = readFileSync(process.argv[2], "utf8").trimEnd().split("\n").map((line) => JSON.parse(line).text);
const answers = [];
const start = process.hrtime.bigint();
for (const text of texts) {
  try {
    answers.push({ found: true, value: JSON.parse(jsonrepair(text)) });
  } catch {
    answers.push({ found: false, value: null });
  }
}
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
writeFileSync(process.argv[3], [...answers, { seconds }].map((row) => JSON.stringify(row)).join("\n") + "\n");
