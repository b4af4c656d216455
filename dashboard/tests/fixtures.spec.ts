import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dashboardOf, expect, test } from './support/fixtures';

/** Starts a server that answers every request with a page. */
async function serverOf(html: string): Promise<{ server: Server; url: string }> {
  const server = createServer((_, response) => response.end(html));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test('binary without a dashboard fails the tests unless they ask for dist', async () => {
  const { server, url } = await serverOf('<h1>built without the dashboard</h1>');
  await expect(dashboardOf(url, 'other')).rejects.toThrow('SLIPFORM_UI is `other`');
  await expect(dashboardOf(url, 'binary')).rejects.toThrow('has no dashboard at /ui/');
  const proxy = await dashboardOf(url, 'dist');
  expect(proxy?.url).toMatch(/^http/);
  proxy?.server.close();
  server.close();
});

test('dashboard of the binary is used without a proxy', async () => {
  const { server, url } = await serverOf('<div id="app"></div>');
  expect(await dashboardOf(url, 'binary')).toBeNull();
  server.close();
});
