// Before anything is drawn: the theme that was chosen here, if it is not the system's.
"use strict";
if (localStorage.theme) document.documentElement.dataset.theme = localStorage.theme;
