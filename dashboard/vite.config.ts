import { fileURLToPath } from 'node:url';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const api = process.env.SLIPFORM_URL ?? 'http://127.0.0.1:8765';
const folder = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: '/ui/',
  plugins: [svelte()],
  resolve: { alias: { $lib: folder('src/lib'), $components: folder('src/components') } },
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: { '^/(?!ui/)': { target: api, changeOrigin: true, headers: { origin: api } } },
  },
  test: { include: ['src/**/*.test.ts'] },
});
