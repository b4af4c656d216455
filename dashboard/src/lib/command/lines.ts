import { jsonLine, jsonText } from '$lib/json/exact';

/** A file that a command line reads. */
export interface CommandFile {
  name: string;
  text: string;
}

/** The same request for a terminal. `cli` is null where the CLI has no such command. */
export interface CommandLines {
  curl: string;
  cli: string | null;
  /** Files that the lines name, because their content does not belong on a line. */
  files: CommandFile[];
}

/** Words of a CLI command, with what it reads besides. */
export interface CliCommand {
  words: string[];
  /** Text for standard input, on one line. */
  input?: string;
  files?: CommandFile[];
  /** Whether the command needs no server. */
  isLocal?: boolean;
}

/** Longer texts go into a file, because shells limit the length of a line, and terminals scroll its start away. */
export const LINE_MAX = 16_000;

const PLAIN = /^[A-Za-z0-9_./:=@%+,-]+$/;

/** Quotes a word for a POSIX shell. */
export function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Returns the words of an option. A value that begins with a hyphen would be read as another option. */
export function option(name: string, value: string): string[] {
  return value.startsWith('-') ? [`${name}=${value}`] : [name, value];
}

export interface Request {
  method?: string;
  path: string;
  body?: unknown;
  /** Header of the version that a change is based on. */
  ifMatch?: string | null;
}

function curl(request: Request, origin: string, token: boolean): { line: string; files: CommandFile[] } {
  const words = ['curl', '-s'];
  const files: CommandFile[] = [];
  if (request.method && request.method !== 'GET' && request.method !== 'POST') words.push('-X', request.method);
  if (request.method === 'POST' && request.body === undefined) words.push('-X', 'POST');
  words.push(quote(origin + request.path));
  if (token) words.push('-H', '"authorization: Bearer $SLIPFORM_TOKEN"');
  if (request.ifMatch) words.push('-H', quote(`if-match: ${request.ifMatch}`));
  if (request.body !== undefined) {
    const body = jsonLine(request.body);
    const isLong = body.length > LINE_MAX;
    if (isLong) files.push({ name: 'body.json', text: body });
    words.push('-H', quote('content-type: application/json'), '-d', isLong ? '@body.json' : quote(body));
  }
  return { line: words.join(' '), files };
}

function cliLine({ words, input, isLocal = false }: CliCommand, origin: string): string {
  const line = ['slipform', ...words.map(quote), ...(isLocal ? [] : ['--server', quote(origin)])].join(' ');
  return input === undefined ? line : `${line} <<'END'\n${input}\nEND`;
}

/** Builds the curl lines of requests and the CLI line with the same effect. */
export function commandLines(request: Request | Request[], cli: string[] | CliCommand | null, origin: string, token: boolean): CommandLines {
  const command = Array.isArray(cli) ? { words: cli } : cli;
  const requests = [request].flat().map((each) => curl(each, origin, token));
  const files = requests.flatMap((each) => each.files);
  return { curl: requests.map((each) => each.line).join('\n'), cli: command && cliLine(command, origin), files: [...files, ...(command?.files ?? [])] };
}

/** Returns a JSON file for a command line. */
export function jsonFile(name: string, value: unknown): CommandFile {
  return { name, text: `${jsonText(value)}\n` };
}
