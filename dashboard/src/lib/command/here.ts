import { token } from '$lib/api/token';
import { commandLines, type CliCommand, type CommandLines, type Request } from './lines';

/** Builds command lines for the server that this page came from. */
export function linesHere(request: Request | Request[], cli: string[] | CliCommand | null): CommandLines {
  return commandLines(request, cli, location.origin, token() !== null);
}
