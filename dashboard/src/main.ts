import './styles/tokens.css';
import './styles/base.css';
import './styles/controls.css';
import './styles/layout.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { setUnauthorizedHandler } from '$lib/api/client';
import { takeTokenFromAddress } from '$lib/api/token';
import { navigate, router, startRouter } from '$lib/nav/router.svelte';
import { startTheme } from '$lib/nav/theme.svelte';

takeTokenFromAddress();
startTheme();
startRouter();
if (router.path === '/') navigate('/runs', { replace: true });
setUnauthorizedHandler(() => {
  if (router.path === '/login') return;
  const query = router.query.toString();
  const back = router.path + (query ? `?${query}` : '');
  navigate(`/login?back=${encodeURIComponent(back)}`, { replace: true });
});

const target = document.getElementById('app');
if (target) mount(App, { target });
