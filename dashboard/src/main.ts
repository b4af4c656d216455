import './styles/tokens.css';
import './styles/base.css';
import './styles/controls.css';
import './styles/layout.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { setUnauthorizedHandler } from '$lib/api/client';
import { takeTokenFromAddress } from '$lib/api/token';
import { hasUnsaved, mayShow } from '$lib/nav/drafts';
import { address, navigate, router, setGuard, startRouter } from '$lib/nav/router.svelte';
import { startTheme } from '$lib/nav/theme.svelte';

const hasUsableLink = takeTokenFromAddress();
startTheme();
startRouter();
if (router.path === '/') navigate('/runs', { replace: true });
setUnauthorizedHandler(() => {
  if (router.path === '/login') return;
  navigate(`/login?back=${encodeURIComponent(address())}`, { replace: true });
});

if (!hasUsableLink) navigate(`/login?link=broken&back=${encodeURIComponent(address())}`, { replace: true });
setGuard((next) => mayShow(next, (question) => confirm(question)));
addEventListener('beforeunload', (event) => {
  if (hasUnsaved()) event.preventDefault();
});

const target = document.getElementById('app');
if (target) mount(App, { target });
